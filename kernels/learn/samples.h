/* SPDX-License-Identifier: Apache-2.0 */
/* How many rows of a microbatch count. */
#ifndef HD_KERNELS_LEARN_SAMPLES_H
#define HD_KERNELS_LEARN_SAMPLES_H

#include "runtime/base/inline.h"

#include <stdint.h>

/* Of rows first … first + rows - 1, those among the first `used`. */
HD_INLINE int64_t hd_samples_count(int64_t used, int64_t first, int64_t rows)
{
    const int64_t left = used - first;
    return left < 0 ? 0 : left < rows ? left : rows;
}

/* *samples = that number, where only the GPU knows *used. All pointers are the GPU's or shared. */
int hd_samples_count_cuda(const int64_t *used, int64_t first, int64_t rows, int64_t *samples,
                          void *stream);

/* counts[i] = *samples, i < n. */
int hd_samples_fill_counts_cuda(const int64_t *samples, int64_t n, float *counts, void *stream);

#endif
