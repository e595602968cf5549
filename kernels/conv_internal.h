/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of bf16 convolutions on matrix registers, for what oneDNN computes at a fraction of
 * their speed. Activations are [y][x][channel], numbers of channels multiples of 16, weights blocks
 * of 16 input by 16 output channels, [out / 16][in / 16][y][x][16][16]; kernels are multiples of
 * the stride. */
#ifndef HD_KERNELS_CONV_INTERNAL_H
#define HD_KERNELS_CONV_INTERNAL_H

#include "kernels/conv.h"

/* Whether this machine and these fields allow it; the layout of the weights is the caller's to
 * check. */
bool hd_conv_amx_allows(const struct hd_conv_fields *fields);

/* Gradient of the weights and its bytes of scratch, as in kernels/conv.h. */
int64_t hd_conv_amx_weights_scratch(const struct hd_conv_fields *fields, int64_t batch);
void hd_conv_amx_weights(const struct hd_conv_fields *fields, int64_t batch, const hd_bf16 *x,
                         const hd_bf16 *dy, float *dweights, float *dbias, void *scratch);

/* dx is zero where y, the input after its ReLU, is not positive. */
int64_t hd_conv_amx_data_scratch(const struct hd_conv_fields *fields, int64_t batch);
void hd_conv_amx_data(const struct hd_conv_fields *fields, int64_t batch, const float *weights,
                      const hd_bf16 *dy, const hd_bf16 *y, hd_bf16 *dx, void *scratch);

#endif
