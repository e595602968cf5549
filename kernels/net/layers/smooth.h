/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential and related functions of one float, without branches and calls, so that compilers
 * make vectors of loops over them. Every operation is rounded as IEEE 754 says, so that all
 * processors, vector widths and compilers yield the same bits. Thread safe. */
#pragma once

#ifndef __cplusplus
#include "kernels/common/vector.h"
#endif
#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns the normal number 2^n of the integer n = shifted - 1.5 * 2^23, -126 <= n <= 127. */
HD_INLINE float hd_exp_make_scale(float shifted)
{
    int32_t bits;
    float scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (int32_t)((uint32_t)(bits - 0x4B400000 + 127) << 23);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Returns exp(x + rest) to 1 ulp, for -87 <= x + rest <= 88 and a rest that is small beside 1. A
 * NaN remains a NaN. */
HD_INLINE float hd_exp_compute(float x, float rest)
{
    /* Adding 1.5 * 2^23 rounds to an integer n. Products by the first part of log 2 are exact. */
    const float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const float r = x - n * 0.693359375f - (n * -2.12194440e-4f - rest);
    float p = 1.9875691500e-4f; /* of Moshier's Cephes library, expf */
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1) * hd_exp_make_scale(shifted);
}

/* Returns tanh(x) to 2 ulp. */
HD_INLINE float hd_tanh_compute(float x)
{
    const float size = fabsf(x), a = size > 10 ? 10 : size, z = a * a;
    const float large = 1 - 2 / (hd_exp_compute(2 * a, 0) + 1);
    float p = -5.71704237e-3f; /* (tanh(a) / a - 1) / z for a <= 0.625, a minimax polynomial */
    p = p * z + 2.06505843e-2f;
    p = p * z - 5.37434965e-2f;
    p = p * z + 1.33314908e-1f;
    p = p * z - 3.33332837e-1f;
    const float small = p * z * a + a;
    return copysignf(a < 0.625f ? small : large, x);
}

/* The normal distribution at x: what is smaller than x, and the density. */
struct hd_gauss {
    float distribution, density;
};

/* Returns the distribution to 7 ulp and the density to 2; numbers below 1e-38 count as 0. */
HD_INLINE struct hd_gauss hd_gauss_compute(float x)
{
    const float size = fabsf(x), a = size < 12.9f ? size : 12.9f;
    /* The first 12 bits of a have an exact square. */
    int32_t bits;
    float head;
    memcpy(&bits, &a, sizeof bits);
    bits &= ~0xFFF;
    memcpy(&head, &bits, sizeof head);
    const float e = hd_exp_compute(-0.5f * head * head, -0.5f * (a - head) * (a + head));
    const float t = 1 / (1 + 0.35f * a);
    float p = -2.91089136e-02f; /* (1 - distribution(a)) / e / t, a minimax polynomial of t */
    p = p * t + 1.43788129e-01f;
    p = p * t - 2.55327076e-01f;
    p = p * t + 1.58721775e-01f;
    p = p * t - 2.27905754e-02f;
    p = p * t + 1.05369121e-01f;
    p = p * t + 1.19869106e-01f;
    p = p * t + 1.39856696e-01f;
    p = p * t + 1.39621705e-01f;
    const float inside = size < 12.9f ? e : 0, tail = p * t * inside;
    struct hd_gauss normal;
    normal.distribution = x < 0 ? tail : 1 - tail;
    normal.density = 0.39894228f * inside;
    return normal;
}

/* -- Registers of floats ----------------------------------------------------------------------- */

/* The functions below have the bits of those above. Compilers that make vectors of loops over
 * branches divide once for each branch. */
#ifndef __cplusplus

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
