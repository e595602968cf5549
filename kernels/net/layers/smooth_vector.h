/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of kernels/net/layers/smooth.h of registers of floats, with the same bits, and the
 * sigmoid: compilers that make vectors of loops over branches divide once for each of them. Thread
 * safe. */
#ifndef HD_KERNELS_NET_LAYERS_SMOOTH_VECTOR_H
#define HD_KERNELS_NET_LAYERS_SMOOTH_VECTOR_H

#include "kernels/common/vector.h"

/* Returns `below` where x < limit, else `other`. */
HD_ALWAYS hd_reg hd_reg_choose(hd_reg x, hd_reg limit, hd_reg below, hd_reg other)
{
#ifdef __AVX512F__
    const __mmask16 is_below = _mm512_cmp_ps_mask((__m512)x, (__m512)limit, _CMP_LT_OQ);
    return (hd_reg)_mm512_mask_blend_ps(is_below, (__m512)other, (__m512)below);
#else
    const hd_reg_mask is_below = x < limit;
    return (hd_reg)((is_below & (hd_reg_mask)below) | (~is_below & (hd_reg_mask)other));
#endif
}

/* Returns the limit where x is less than that; else x, also if that is a NaN. */
HD_ALWAYS hd_reg hd_reg_raise(hd_reg x, hd_reg limit)
{
#ifdef __AVX512F__
    return (hd_reg)_mm512_max_ps((__m512)limit, (__m512)x);
#else
    return hd_reg_choose(x, limit, limit, x);
#endif
}

/* Returns the limit where x is more than that, likewise. */
HD_ALWAYS hd_reg hd_reg_lower(hd_reg x, hd_reg limit)
{
#ifdef __AVX512F__
    return (hd_reg)_mm512_min_ps((__m512)limit, (__m512)x);
#else
    return hd_reg_choose(limit, x, limit, x);
#endif
}

/* Returns a register of equal floats. */
HD_ALWAYS hd_reg hd_reg_fill(float value)
{
    const hd_reg zero = {0};
    return value - zero;
}

/* Returns what hd_exp_compute(x, 0) returns. */
HD_ALWAYS hd_reg hd_reg_exp(hd_reg x)
{
    const hd_reg shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const hd_reg r = x - n * 0.693359375f - n * -2.12194440e-4f;
    const hd_reg scale = (hd_reg)(((hd_reg_mask)shifted - 0x4B400000 + 127) << 23);
    hd_reg p = hd_reg_fill(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1) * scale;
}

/* Returns 1 / (1 + exp(-x)) to 2 ulp; numbers below 1.7e-38 count as 0. A NaN remains a NaN. */
HD_ALWAYS hd_reg hd_reg_sigmoid(hd_reg x)
{
    const hd_reg limit = hd_reg_fill(87);
    const hd_reg y = 1 / (1 + hd_reg_exp(-hd_reg_lower(hd_reg_raise(x, -limit), limit)));
    return hd_reg_choose(x, -limit, hd_reg_fill(0), y);
}

/* Returns what hd_tanh_compute returns. */
HD_ALWAYS hd_reg hd_reg_tanh(hd_reg x)
{
    const hd_reg_mask sign = (hd_reg_mask)x & INT32_MIN;
    const hd_reg size = (hd_reg)((hd_reg_mask)x ^ sign);
    const hd_reg a = hd_reg_lower(size, hd_reg_fill(10)), z = a * a;
    const hd_reg large = 1 - 2 / (hd_reg_exp(2 * a) + 1);
    hd_reg p = hd_reg_fill(-5.71704237e-3f);
    p = p * z + 2.06505843e-2f;
    p = p * z - 5.37434965e-2f;
    p = p * z + 1.33314908e-1f;
    p = p * z - 3.33332837e-1f;
    const hd_reg y = hd_reg_choose(a, hd_reg_fill(0.625f), p * z * a + a, large);
    return (hd_reg)((hd_reg_mask)y | sign);
}

#endif
