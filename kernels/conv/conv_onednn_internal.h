/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions through oneDNN, and how it likes their operands to lie. */
#ifndef HD_KERNELS_CONV_CONV_ONEDNN_INTERNAL_H
#define HD_KERNELS_CONV_CONV_ONEDNN_INTERNAL_H

#include "kernels/conv/conv_fields.h"

struct hd_onednn_conv_fields {
    struct hd_conv_fields of;
    int64_t out_height, out_width;
    enum hd_layout output; /* what oneDNN would take; create fills it in */
};

struct hd_onednn_conv;

/* As hd_conv_create and destroy. */
int hd_onednn_conv_create(struct hd_onednn_conv_fields *fields, struct hd_onednn_conv **conv_p);
void hd_onednn_conv_destroy(struct hd_onednn_conv *conv);

/* As the functions of kernels/conv/conv.h with the like names. */
int64_t hd_onednn_conv_count_weights(const struct hd_onednn_conv *conv);
int64_t hd_onednn_conv_count_shadow(const struct hd_onednn_conv *conv);
int hd_onednn_conv_import(const struct hd_onednn_conv *conv, const float *row_major,
                          float *weights);
int hd_onednn_conv_export(const struct hd_onednn_conv *conv, const float *weights,
                          float *row_major);
int hd_onednn_conv_prepare(struct hd_onednn_conv *conv, enum hd_conv_pass pass, int64_t batch);
int64_t hd_onednn_conv_get_scratch_bytes(struct hd_onednn_conv *conv, enum hd_conv_pass pass,
                                         int64_t batch);
const char *hd_onednn_conv_get_name(struct hd_onednn_conv *conv, enum hd_conv_pass pass,
                                    int64_t batch);

/* Whether the weights are blocks of 16 input by 16 output channels, [out / 16][in / 16][y][x][16]
 * [16]. */
bool hd_onednn_conv_is_blocked(const struct hd_onednn_conv *conv);

/* place[hd_onednn_conv_count_weights]: which element of the shadow each float is, or -1.
 * HD_ERR_NOMEM or HD_ERR_UNSUPPORTED (logged). */
int hd_onednn_conv_map_shadow(const struct hd_onednn_conv *conv, int32_t *place);

/* One pass over `batch` observations. Arguments of forward: x, weights, bias, y; of weights: x, dy,
 * dweights, dbias; of data: dy, weights, dx, without the ReLU's zeros. */
int hd_onednn_conv_run(struct hd_onednn_conv *conv, enum hd_conv_pass pass, int64_t batch,
                       void *const *arguments, char *scratch);

/* "onednn 2.6.3 isa 0x3e7". */
void hd_onednn_describe(char *text, size_t bytes);

#endif
