/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/common/bf16.h"
}

static __global__ void round_all(const float *from, int64_t n, hd_bf16 *to)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < n)
        to[i] = hd_bf16_from_float(from[i]);
}

extern "C" int hd_bf16_round_cuda(const float *from, int64_t n, hd_bf16 *to, void *stream)
{
    return HD_LAUNCH(round_all, hd_cuda_count_blocks(n), HD_THREADS, stream, from, n, to);
}
