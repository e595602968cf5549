/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation of observations before they enter a net. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

/* Element j of an observation, counted in its plain layout ([C][H][W] for frames), enters as
 * min(max(x * scale[j] + shift[j], -limit), limit), where x is the byte 0 … 255 or the float as it
 * was passed. Product and sum are rounded once. A NaN stays a NaN. */
struct hd_obs_norm {
    const float *scale, *shift; /* [elements of an observation] */
    float limit;                /* > 0 */
};

/* Normalises one element as defined above; kernels/net/frames_cpu.c computes 16 at once. */
HD_INLINE float hd_obs_normalise(const struct hd_obs_norm *norm, int64_t j, float x)
{
    const float y = fmaf(x, norm->scale[j], norm->shift[j]), limit = norm->limit;
    return y > limit ? limit : y < -limit ? -limit : y;
}
