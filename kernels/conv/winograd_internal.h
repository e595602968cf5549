/* SPDX-License-Identifier: Apache-2.0 */
/* Float convolutions with kernels of 2 x 2 or 3 x 3 by Winograd's minimal filtering (Lavin & Gray
 * 2016): 4 x 4 inputs and 16 products, each of matrices, for F(3 x 3, 2 x 2), 9 outputs instead of
 * 36 products, or F(2 x 2, 3 x 3), 4 outputs instead of 36, and only sums and differences around
 * them. With stride s the kernel is s times as large, and the phases of every s-th pixel are the
 * input channels. Gradients are the same way backwards. Activations are HD_NCHW16, weights blocks
 * of 16 input by 16 output channels, [out / 16][in / 16][y][x][16][16], as oneDNN has them. The
 * bits of an observation's output and of its input's gradient depend on that observation alone. */
#ifndef HD_KERNELS_CONV_WINOGRAD_INTERNAL_H
#define HD_KERNELS_CONV_WINOGRAD_INTERNAL_H

#include "kernels/conv/conv_fields.h"

/* Whether the fields allow it, and whether it is faster; the layout of the weights is the caller's
 * to check. */
bool hd_winograd_supports(const struct hd_conv_fields *fields);

/* Bytes of scratch, 64-byte aligned, of any pass whose parts have at most `most` observations. */
int64_t hd_winograd_get_scratch_bytes(const struct hd_conv_fields *fields, int64_t max_batch);

/* Puts the weights of a forward pass or one of data into its scratch. */
void hd_winograd_begin(const struct hd_conv_fields *fields, enum hd_conv_pass pass,
                       int64_t max_batch, const float *weights, void *scratch);

/* As in kernels/conv/conv.h, of a part. The gradient of the weights (`start`: of the first part,
 * else it is added) is in the scratch until the end. */
void hd_winograd_forward(const struct hd_conv_fields *fields, int64_t max_batch, int64_t batch,
                         const float *x, const float *bias, float *y, void *scratch);
void hd_winograd_backward_weights(const struct hd_conv_fields *fields, int64_t max_batch,
                                  int64_t batch, const float *x, const float *dy, bool start,
                                  float *dbias, void *scratch);
void hd_winograd_end_weights(const struct hd_conv_fields *fields, int64_t max_batch,
                             float *dweights, void *scratch);
void hd_winograd_backward_data(const struct hd_conv_fields *fields, int64_t max_batch,
                               int64_t batch, const float *dy, const float *y, float *dx,
                               void *scratch);

#endif
