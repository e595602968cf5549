/* SPDX-License-Identifier: Apache-2.0 */
/* Normal numbers from counters, for CPUs and GPUs. Thread safe. */
#pragma once

#include "runtime/base/rng.h"

#include <math.h>

/* Returns the item's normal number, by the method of Box and Muller from its 128 bits. The last
 * bit depends on the logarithm and the cosine of the C library. */
HD_INLINE double hd_normal_draw(const struct hd_rng *rng, uint32_t item)
{
    uint32_t words[4];
    hd_rng_draw_words(rng, item, words);
    const double radius = ((double)words[0] * 0x1p32 + words[1] + 1) * 0x1p-64; /* (0, 1] */
    const double turn = ((double)words[2] * 0x1p32 + words[3]) * 0x1p-64;
    return sqrt(-2 * log(radius)) * cos(2 * 3.14159265358979323846 * turn);
}
