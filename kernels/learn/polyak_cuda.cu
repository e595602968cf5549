/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/learn/polyak.h"
}

static __global__ void move(float share, int64_t n, const float *from, float *to)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < n)
        to[i] = share * from[i] + (1 - share) * to[i];
}

extern "C" int hd_polyak_move_cuda(float share, int64_t n, const float *from, float *to,
                                   void *stream)
{
    return HD_LAUNCH(move, hd_cuda_count_blocks(n), HD_THREADS, stream, share, n, from, to);
}
