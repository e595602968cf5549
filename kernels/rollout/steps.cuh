/* SPDX-License-Identifier: Apache-2.0 */
/* Access to a collect's steps from kernels: copies of observations. */
#pragma once

#include "kernels/common/copy.cuh"

extern "C" {
#include "kernels/rollout/steps.h"
}

/* Returns the addresses and sizes that the width of words depends on, or-ed together. */
static inline uint64_t hd_steps_bits(const struct hd_steps *steps, const char *obs)
{
    return (uint64_t)(steps->frame_bytes | steps->at.frames | steps->group_bytes) |
           hd_cuda_get_bits(obs);
}

/* Copies, by a thread block, a sample's observation (ahead = 1: the next one). */
template <typename word>
static __device__ inline void hd_steps_copy(const struct hd_steps *steps, int64_t sample, int ahead,
                                            char *obs)
{
    for (int64_t k = threadIdx.y; k < steps->stack; k += blockDim.y)
        hd_copy_words<word>(hd_steps_find_frame(steps, sample, ahead, k),
                            obs + k * steps->frame_bytes, steps->frame_bytes);
}

/* Launches kernel<word>(…) with a thread block for each row of obs. Yields HD_OK or HD_ERR_DEVICE
 * (logged). */
#define HD_LAUNCH_ROWS(kernel, steps, obs, rows, stream, ...)                                      \
    HD_LAUNCH_COPY(kernel, hd_steps_bits(steps, obs), (steps)->frame_bytes, (steps)->stack,        \
                   (unsigned)(rows), stream, __VA_ARGS__)
