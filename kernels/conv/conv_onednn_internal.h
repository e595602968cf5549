/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions through oneDNN, in the layouts that it prefers. Thread safe once created; a call
 * computes on the calling thread. */
#pragma once

#include "kernels/conv/conv_fields.h"

struct hd_onednn_conv;

/* Create and destroy a convolution like hd_conv_create and hd_conv_destroy, with the same errors.
 * *output_p becomes the layout of the output that oneDNN computes best. */
int hd_onednn_conv_create(const struct hd_conv_fields *fields, enum hd_layout *output_p,
                          struct hd_onednn_conv **conv_p);
void hd_onednn_conv_destroy(struct hd_onednn_conv *conv);

/* Do what the functions of kernels/conv/conv.h with the corresponding names do, with the same
 * errors. */
bool hd_onednn_conv_supports_bf16(void);
int64_t hd_onednn_conv_count_weights(const struct hd_onednn_conv *conv);
int64_t hd_onednn_conv_count_shadow(const struct hd_onednn_conv *conv);
int hd_onednn_conv_import(const struct hd_onednn_conv *conv, const float *row_major,
                          float *weights);
int hd_onednn_conv_export(const struct hd_onednn_conv *conv, const float *weights,
                          float *row_major);
int hd_onednn_conv_prepare(struct hd_onednn_conv *conv, enum hd_conv_pass pass, int64_t batch);
int64_t hd_onednn_conv_get_scratch_bytes(struct hd_onednn_conv *conv, enum hd_conv_pass pass,
                                         int64_t max_batch);
const char *hd_onednn_conv_get_name(struct hd_onednn_conv *conv, enum hd_conv_pass pass,
                                    int64_t batch);

/* Returns whether the weights are blocks of 16 input by 16 output channels, [out / 16][in /
 * 16][y][x][16][16]. */
bool hd_onednn_conv_is_blocked(const struct hd_onednn_conv *conv);

/* Fills place[hd_onednn_conv_count_weights] with the index of each float in the shadow, or -1.
 * Returns HD_OK, HD_ERR_NOMEM or HD_ERR_UNSUPPORTED (logged). */
int hd_onednn_conv_map_shadow(const struct hd_onednn_conv *conv, int32_t *place);

/* Computes one pass over `batch` observations. The arguments are x, weights, bias, y in a forward
 * pass; x, dy, dweights, dbias for the weights' gradient; dy, weights, dx for the data's, without
 * the zeros of a ReLU. Returns HD_OK or an error of hd_conv_create (logged). */
int hd_onednn_conv_run(struct hd_onednn_conv *conv, enum hd_conv_pass pass, int64_t batch,
                       void *const *arguments, char *scratch);

/* Writes a text such as "onednn 2.6.3 isa 0x3e7". */
void hd_onednn_describe(char *text, size_t bytes);
