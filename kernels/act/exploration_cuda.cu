/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/act/exploration.h"
#include "kernels/common/argmax.h"
}

static __global__ void argmax_rows(const float *q, int64_t ld, int64_t n, int64_t rows,
                                   int32_t *action)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < rows)
        action[i] = (int32_t)hd_argmax(q + i * ld, n);
}

extern "C" int hd_argmax_cuda(const float *q, int64_t ld, int64_t n, int64_t rows, int32_t *action,
                              void *stream)
{
    if (rows == 0)
        return HD_OK;
    return HD_LAUNCH(argmax_rows, hd_cuda_count_blocks(rows), HD_THREADS, stream, q, ld, n, rows,
                     action);
}
