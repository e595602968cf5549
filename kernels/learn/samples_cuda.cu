/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/learn/samples.h"
}

static __global__ void count(const int64_t *used, int64_t first, int64_t rows, int64_t *samples)
{
    HD_AWAIT_INPUTS();
    *samples = hd_samples_count(*used, first, rows);
}

extern "C" int hd_samples_count_cuda(const int64_t *used, int64_t first, int64_t rows,
                                     int64_t *samples, void *stream)
{
    return HD_LAUNCH(count, 1, 1, stream, used, first, rows, samples);
}

static __global__ void note(const int64_t *samples, int64_t n, float *counts)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < n)
        counts[i] = (float)*samples;
}

extern "C" int hd_samples_fill_counts_cuda(const int64_t *samples, int64_t n, float *counts,
                                           void *stream)
{
    return HD_LAUNCH(note, hd_cuda_count_blocks(n), HD_THREADS, stream, samples, n, counts);
}
