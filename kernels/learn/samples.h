/* SPDX-License-Identifier: Apache-2.0 */
/* The number of rows of a microbatch that count. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <stdint.h>

/* Returns how many of the rows first … first + rows - 1 are among the first `used`. */
HD_INLINE int64_t hd_samples_count(int64_t used, int64_t first, int64_t rows)
{
    const int64_t left = used - first;
    return left < 0 ? 0 : left < rows ? left : rows;
}

/* Stores that number in *samples when only the GPU knows *used. All pointers are to device or
 * shared memory. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_samples_count_cuda(const int64_t *used, int64_t first, int64_t rows, int64_t *samples,
                          void *stream);

/* Sets counts[i] = *samples for i < n. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_samples_fill_counts_cuda(const int64_t *samples, int64_t n, float *counts, void *stream);
