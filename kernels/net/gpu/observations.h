/* SPDX-License-Identifier: Apache-2.0 */
/* Observations on their way into a net on a GPU: converted to rows, and as columns for the first
 * convolution. Thread safe: functions only launch on `stream`, and return HD_OK, HD_ERR_DEVICE or,
 * if a count of threads exceeds 32 bits, HD_ERR_UNSUPPORTED (logged). Pointers are to device
 * memory, aligned to 16 bytes, but those to observations and their norm may have any alignment. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Elements that a thread reads or writes at once. */
enum { HD_VECTOR = 8 };

enum hd_gpu_obs_type { HD_GPU_BYTES, HD_GPU_FLOATS, HD_GPU_BF16 };

/* Observations: rows of `first`, then of `second`. */
struct hd_gpu_obs {
    const void *first, *second;
    int64_t n_first, elements; /* elements of an observation */
    enum hd_gpu_obs_type type;
    const float *scale, *shift; /* as in kernels/net/obs_norm.h; NULL: bytes are divided by 255,
                                   other types are unchanged */
    float limit;
};

/* The geometry of square windows, of a convolution or a pool. A convolution of observations has
 * `channels` real channels in planes ([C][H][W]); others count padding channels too. */
struct hd_gpu_window {
    int32_t channels, height, width, kernel, stride, out_height, out_width, padding;
};

/* Converts observations to rows to[rows][ld], with zeros after their elements. Returns a status as
 * above. */
int hd_gpu_take_obs(const struct hd_gpu_obs *obs, int64_t rows, int64_t ld, bool bf16, void *to,
                    void *stream);

/* Returns the elements of a row of such columns: C * kernel * kernel, filled up to whole vectors.
 */
static inline int64_t hd_gpu_count_obs_depth(const struct hd_gpu_window *w)
{
    const int64_t n = (int64_t)w->channels * w->kernel * w->kernel;
    return (n + HD_VECTOR - 1) / HD_VECTOR * HD_VECTOR;
}

/* Makes columns[rows * pixels out][depth], [C][kernel][kernel] and zeros, of observations from row
 * `from_row` on. Returns a status as above. */
int hd_gpu_im2col_obs(const struct hd_gpu_obs *obs, int64_t from_row,
                      const struct hd_gpu_window *window, int64_t rows, bool bf16, void *columns,
                      void *stream);
