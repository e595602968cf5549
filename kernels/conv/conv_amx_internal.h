/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 convolutions on Intel's matrix registers, where oneDNN reaches only a fraction of their
 * speed. Activations are [y][x][channel], numbers of channels multiples of 16, weights blocks of 16
 * input by 16 output channels, [out / 16][in / 16][y][x][16][16]; kernels are multiples of the
 * stride; there is no padding. Thread safe on different memory; a call computes on the calling
 * thread. */
#pragma once

#include "kernels/conv/conv_own_internal.h"

/* Returns whether this machine and these fields allow the gradients. The caller checks the layout
 * of the weights. */
bool hd_conv_amx_supports(const struct hd_conv_fields *fields);

/* If the gradients are supported: return whether the forward pass is too, and the number of
 * elements of the shadow weights that it reads; and fill place[weights], the index of each float in
 * the shadow. */
bool hd_conv_amx_supports_forward(const struct hd_conv_fields *fields);
int64_t hd_conv_amx_count_shadow(const struct hd_conv_fields *fields);
void hd_conv_amx_map_shadow(const struct hd_conv_fields *fields, int32_t *place);

/* All NULL in programs built without AMX. */
extern const struct hd_conv_own hd_conv_amx_forward, hd_conv_amx_weights, hd_conv_amx_data;
