/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of the weights of bf16 convolutions on AVX-512's products of pairs, where oneDNN
 * reaches half of their speed. Layouts as in kernels/conv/conv_amx_internal.h; kernels and strides
 * are any. Thread safe on different memory; a call computes on the calling thread. */
#pragma once

#include "kernels/conv/conv_own_internal.h"

/* Returns whether this program and these fields allow it, and there are no matrix registers, for
 * which oneDNN is better where kernels/conv/conv_amx_internal.h is no help. The caller checks the
 * layout of the weights. */
bool hd_conv_pairs_supports(const struct hd_conv_fields *fields);

/* All NULL in programs built without these products. */
extern const struct hd_conv_own hd_conv_pairs_weights;
