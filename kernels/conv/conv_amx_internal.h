/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 convolutions on Intel's matrix registers, where oneDNN reaches only a fraction of their
 * speed. Activations are [y][x][channel], numbers of channels multiples of 16, weights blocks of 16
 * input by 16 output channels, [out / 16][in / 16][y][x][16][16]; kernels are multiples of the
 * stride; there is no padding. Thread safe on different memory; a call computes on the calling
 * thread. */
#ifndef HD_KERNELS_CONV_CONV_AMX_INTERNAL_H
#define HD_KERNELS_CONV_CONV_AMX_INTERNAL_H

#include "kernels/conv/conv_fields.h"

/* Returns whether this machine and these fields allow it. The caller checks the layout of the
 * weights. */
bool hd_conv_amx_supports(const struct hd_conv_fields *fields);

/* If the gradients are supported: return whether the forward pass is too, and the number of
 * elements of the shadow weights that it reads; fill place[weights], the index of each float in the
 * shadow; and compute the pass over `batch` observations. */
bool hd_conv_amx_supports_forward(const struct hd_conv_fields *fields);
int64_t hd_conv_amx_count_shadow(const struct hd_conv_fields *fields);
void hd_conv_amx_map_shadow(const struct hd_conv_fields *fields, int32_t *place);
void hd_conv_amx_forward(const struct hd_conv_fields *fields,
                         const struct hd_conv_prefetch *prefetch, int64_t batch, const hd_bf16 *x,
                         const hd_bf16 *shadow, const float *bias, hd_bf16 *y);

/* Gradient of the weights of one part: if `start` the part is the first one, else its gradient is
 * added. Scratch keeps nothing between parts; dweights has its final order only after
 * hd_conv_amx_end_weights. */
int64_t hd_conv_amx_get_weights_scratch_bytes(const struct hd_conv_fields *fields,
                                              int64_t max_batch);
void hd_conv_amx_backward_weights(const struct hd_conv_fields *fields,
                                  const struct hd_conv_prefetch *prefetch, int64_t batch,
                                  const hd_bf16 *x, const hd_bf16 *dy, bool start, float *dweights,
                                  float *dbias, void *scratch);
void hd_conv_amx_end_weights(const struct hd_conv_fields *fields, float *dweights);

/* Gradient of the input, which is zero where y, the input after its ReLU, is not positive; NULL: no
 * ReLU. From hd_conv_amx_begin_data on, the scratch holds the weights. */
int64_t hd_conv_amx_get_data_scratch_bytes(const struct hd_conv_fields *fields, int64_t max_batch);
void hd_conv_amx_begin_data(const struct hd_conv_fields *fields, const float *weights,
                            void *scratch);
void hd_conv_amx_backward_data(const struct hd_conv_fields *fields, int64_t batch,
                               const hd_bf16 *dy, const hd_bf16 *y, hd_bf16 *dx, void *scratch);

#endif
