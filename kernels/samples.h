/* SPDX-License-Identifier: Apache-2.0 */
/* How many rows of a microbatch count, where only the GPU knows. */
#ifndef HD_KERNELS_SAMPLES_H
#define HD_KERNELS_SAMPLES_H

#include <stdint.h>

/* *samples = those of rows first … first + rows - 1 that are among the first *used. All pointers
 * are the GPU's or shared. */
int hd_samples_count_cuda(const int64_t *used, int64_t first, int64_t rows, int64_t *samples,
                          void *stream);

/* counts[i] = *samples, i < n. */
int hd_samples_note_cuda(const int64_t *samples, int64_t n, float *counts, void *stream);

#endif
