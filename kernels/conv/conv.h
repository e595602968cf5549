/* SPDX-License-Identifier: Apache-2.0 */
/* A two-dimensional convolution with a bias and perhaps a ReLU, and its gradients, through oneDNN
 * or, where that is slow, through kernels of our own. Weights, their gradient and
 * everything computed from them element by element are kept in the layout in which oneDNN computes,
 * because converting them would touch nearly all bytes in every pass; hd_conv_import and
 * hd_conv_export convert from and to PyTorch's. A call computes on the calling thread alone, and
 * its bits depend on how a pass is divided into parts, never on the thread. Thread safe once the
 * convolution is created. */
#pragma once

#include "kernels/conv/conv_fields.h"

/* Makes a convolution, which the caller releases by hd_conv_destroy (accepts NULL). Returns HD_OK,
 * HD_ERR_NOMEM, or HD_ERR_UNSUPPORTED (logged) if oneDNN has no implementation. */
int hd_conv_create(const struct hd_conv_fields *fields, struct hd_conv **conv_p);
void hd_conv_destroy(struct hd_conv *conv);

/* Returns whether this processor has bf16 convolutions, without which hd_conv_create refuses them.
 */
bool hd_conv_supports_bf16(void);

/* Makes one likewise, but changes fields->input from blocks to pixels of channels (HD_NCHW16 to
 * HD_NHWC) where oneDNN computes blocks by its reference code, which is a hundred times too slow:
 * blocks are for processors with vectors of 16 floats. Returns the errors of hd_conv_create. */
int hd_conv_create_fast(struct hd_conv_fields *fields, struct hd_conv **conv_p);

/* Return the output's layout and sizes, and the number of elements of one observation at the input
 * and output, including padding channels. */
enum hd_layout hd_conv_get_output(const struct hd_conv *conv, int64_t *height_p, int64_t *width_p);
int64_t hd_conv_count_input_elements(const struct hd_conv *conv);
int64_t hd_conv_count_output_elements(const struct hd_conv *conv);

/* Returns the number of floats of the weights, including zeros for missing channels of the
 * layout. */
int64_t hd_conv_count_weights(const struct hd_conv *conv);

/* Returns the number of elements of the bf16 shadow weights that hd_conv_forward reads, or 0 if it
 * reads the floats. */
int64_t hd_conv_count_shadow(const struct hd_conv *conv);

/* Refreshes the shadow for floats [lo, hi), which are multiples of 32 or the end. Does nothing if
 * there is no shadow. */
void hd_conv_refresh_shadow(const struct hd_conv *conv, const float *weights, int64_t lo,
                            int64_t hi, hd_bf16 *shadow);

/* Convert between the layout here and PyTorch's row_major[out][in][y][x]. Return HD_OK,
 * HD_ERR_NOMEM or HD_ERR_UNSUPPORTED (logged). */
int hd_conv_import(const struct hd_conv *conv, const float *row_major, float *weights);
int hd_conv_export(const struct hd_conv *conv, const float *weights, float *row_major);

/* Makes what a pass needs for parts of `batch` observations, unless it exists already. The pass
 * itself would do so otherwise. Returns HD_OK or the errors of hd_conv_create. */
int hd_conv_prepare(struct hd_conv *conv, enum hd_conv_pass pass, int64_t batch);

/* Returns the bytes of scratch of a pass whose parts have at most `max_batch` observations, and
 * prepares such parts. */
int64_t hd_conv_get_scratch_bytes(struct hd_conv *conv, enum hd_conv_pass pass, int64_t max_batch);

/* Returns for messages which implementation computes a pass: oneDNN's
 * "brgconv:avx512_core_bf16", or "heddle avx512_bf16". The string belongs to the convolution. */
const char *hd_conv_get_name(struct hd_conv *conv, enum hd_conv_pass pass, int64_t batch);

/* Begin and end a pass. These and the functions below return HD_OK or an error of hd_conv_create
 * (logged). x, y and their gradients are bf16 or float as the fields say. */
int hd_conv_begin(struct hd_conv_run *run);
int hd_conv_end(struct hd_conv_run *run);

/* Computes y = conv(x, weights) + bias, or max(0, that) with a ReLU, for `batch` observations.
 * Returns a status as above. */
int hd_conv_forward(struct hd_conv_run *run, int64_t batch, const void *x, void *y);

/* Adds to dweights and dbias; dy is the gradient before the ReLU if there is one. Returns a status
 * as above. */
int hd_conv_backward_weights(struct hd_conv_run *run, int64_t batch, const void *x, const void *dy);

/* Computes dx. If y is not NULL, it is the input of this convolution and the output of a ReLU, and
 * dx is the gradient before that: zero where y is not positive. Returns a status as above. */
int hd_conv_backward_data(struct hd_conv_run *run, int64_t batch, const void *dy, const void *y,
                          void *dx);

/* Writes name, version and instruction set of the library, and whether bf16 gradients use the
 * matrix registers: "onednn 2.6.3 isa 0x3e7 amx". It is a part of the arithmetic fingerprint. */
void hd_conv_describe_library(char *text, size_t bytes);
