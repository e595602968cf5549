/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 is the upper half of a float, rounded to nearest, ties to even. Subnormal results become
 * zero, as in the processor's own conversion. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t hd_bf16;

/* Rounds one float. */
HD_INLINE hd_bf16 hd_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (hd_bf16)(bits >> 16 | 0x40);
    if (fabsf(value) < 0x1p-126f)
        return (hd_bf16)(bits >> 16 & 0x8000);
    return (hd_bf16)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Returns the float that has the same value. */
HD_INLINE float hd_bf16_to_float(hd_bf16 value)
{
    uint32_t bits = (uint32_t)value << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* Rounds to[i] = from[i], i < n. The CUDA form returns HD_OK or HD_ERR_DEVICE (logged). */
void hd_bf16_round(const float *from, int64_t n, hd_bf16 *to);
int hd_bf16_round_cuda(const float *from, int64_t n, hd_bf16 *to, void *stream);

enum { HD_BF16_UNIT = 32 };

/* Rounds two rows of a matrix into pairs, the order in which the processor multiplies them: to[2 i]
 * = even[i], to[2 i + 1] = odd[i], i < 16. */
void hd_bf16_pair(const float *even, const float *odd, hd_bf16 *to);
