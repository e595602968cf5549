/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of the weights of bf16 convolutions on AVX-512's products of pairs, where oneDNN
 * reaches half of their speed. Layouts as in kernels/conv/conv_amx_internal.h; kernels and strides
 * are any. Thread safe on different memory; a call computes on the calling thread. */
#ifndef HD_KERNELS_CONV_CONV_PAIRS_INTERNAL_H
#define HD_KERNELS_CONV_CONV_PAIRS_INTERNAL_H

#include "kernels/conv/conv_fields.h"

/* Returns whether this program and these fields allow it, and there are no matrix registers, for
 * which oneDNN is better where kernels/conv/conv_amx_internal.h is no help. The caller checks the
 * layout of the weights. */
bool hd_conv_pairs_supports(const struct hd_conv_fields *fields);

/* Do what the functions of kernels/conv/conv_amx_internal.h with the corresponding names do. */
int64_t hd_conv_pairs_get_weights_scratch_bytes(const struct hd_conv_fields *fields,
                                                int64_t max_batch);
void hd_conv_pairs_backward_weights(const struct hd_conv_fields *fields, int64_t batch,
                                    const hd_bf16 *x, const hd_bf16 *dy, bool start,
                                    float *dweights, float *dbias, void *scratch);
void hd_conv_pairs_end_weights(const struct hd_conv_fields *fields, float *dweights);

#endif
