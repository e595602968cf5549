/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and times on a GPU, for the parts that measure kernels. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Makes a stream, which the end of the process releases. Returns HD_OK or HD_ERR_DEVICE (logged),
 * also if there is no GPU. */
int hd_part_open_gpu(void **stream_p);

/* Returns zeroed device memory, which the end of the process releases, or NULL if there is none
 * left. */
void *hd_part_make_on_gpu(int64_t bytes);

/* Copies to the GPU. Returns HD_OK, HD_ERR_NOMEM if a pointer is NULL, or HD_ERR_DEVICE (logged).
 */
int hd_part_put_on_gpu(void *to, const void *from, int64_t bytes);

/* Measures launch(arg), which enqueues on `stream` and returns a status, as a CUDA graph or as it
 * is, and reports milliseconds of wall-clock time under `name`: the median of rounds of calls that
 * last about 50 ms. Returns HD_OK, HD_ERR_DEVICE (logged) or an error of launch. */
int hd_part_measure_on_gpu(const char *name, int (*launch)(const void *arg), const void *arg,
                           bool graphs, void *stream);
