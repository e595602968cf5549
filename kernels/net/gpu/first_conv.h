/* SPDX-License-Identifier: Apache-2.0 */
/* The first convolution of a net in bf16 straight from observations of bytes, by an implicit GEMM
 * on tensor cores: its columns are never written to memory. Bytes are normalised, or divided by
 * 255, and rounded to bf16 as hd_gpu_im2col_obs does; sums are f32, in an order that depends on the
 * shapes and the number of rows alone. Thread safe: functions only launch on `stream`, and return
 * HD_OK, HD_ERR_DEVICE or, if a count of thread blocks exceeds 31 bits, HD_ERR_UNSUPPORTED
 * (logged). Pointers are to device memory, aligned to 16 bytes, but those of hd_gpu_obs may have
 * any alignment. */
#pragma once

#include "kernels/net/gpu/observations.h"

struct hd_gpu_first_conv {
    struct hd_gpu_window window;
    int64_t rows, out; /* out: channels of the output, a multiple of HD_VECTOR */
};

/* The forward pass keeps observations for the gradient: bytes[rows][C * H * W], as far as
 * windows see them; and norm[hd_gpu_first_conv_count_norm(window)], the limit, or 0 where
 * observations are not normalised, and from element 4 on scale, then shift. */
struct hd_gpu_kept_obs {
    uint8_t *bytes;
    float *norm;
};

/* Returns whether the functions below compute this convolution: kernel 8 and stride 4 on images
 * whose width is a multiple of 4, of which a few lines fit into a multiprocessor's shared memory.
 */
bool hd_gpu_first_conv_supports(const struct hd_gpu_window *window);

/* Returns the floats of hd_gpu_kept_obs.norm. */
int64_t hd_gpu_first_conv_count_norm(const struct hd_gpu_window *window);

/* Computes y[rows][pixels out][out] = max(0, bias + convolution) of obs->type HD_GPU_BYTES, with
 * bf16 weight[out][C * kernel * kernel], bias[out] and y, and fills `kept`. Returns a status as
 * above. */
int hd_gpu_first_conv_forward(const struct hd_gpu_first_conv *conv, const struct hd_gpu_obs *obs,
                              const void *weight, const void *bias, void *y,
                              const struct hd_gpu_kept_obs *kept, void *stream);

/* Returns the floats of memory that the gradient needs for partial sums. */
int64_t hd_gpu_first_conv_count_partials(const struct hd_gpu_first_conv *conv);

/* Computes gradient[out][C * kernel * kernel] of the weights, in f32, from bf16
 * delta[rows][pixels out][out], the gradient before the ReLU, and what a forward pass of at least
 * as many rows has kept. Returns a status as above. */
int hd_gpu_first_conv_gradient(const struct hd_gpu_first_conv *conv,
                               const struct hd_gpu_kept_obs *kept, const void *delta,
                               float *partials, float *gradient, void *stream);
