/* SPDX-License-Identifier: Apache-2.0 */
/* Converts parameters of convolutional nets from and to PyTorch's layout, and refreshes shadows. */
#include "kernels/common/shadow.h"
#include "kernels/net/net_conv_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

enum { CONV_TENSORS = 2 * HD_CONVS, MID_TENSORS = CONV_TENSORS + 2 };

/* Returns the first row of a head's tensor in the packed hidden layer, or its first output. The
 * stream of the actions comes first, whatever the order of the tensors. */
static int64_t head_row(const struct hd_conv_net *net, int tensor, bool output)
{
    bool value = (tensor >= MID_TENSORS + 4) != (net->base.heads == HD_HEADS_ACTOR_CRITIC);
    return value ? (output ? net->base.actions : net->width) : 0;
}

/* Copies between row_major[out][in] and a packed layer from output `first` on. */
static void copy_packed(const struct hd_packed *packed, const int32_t *feature, int64_t first,
                        int64_t out, int64_t row_major_in, float *row_major, float *weights,
                        bool import)
{
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < packed->in; i++) {
            int64_t row_major_i = feature ? feature[i] : i;
            if (row_major_i < 0)
                continue;
            float *a = row_major + o * row_major_in + row_major_i;
            float *b = weights + hd_packed_get_index(packed, first + o, i);
            *(import ? b : a) = *(import ? a : b);
        }
}

static int copy_conv(const struct hd_conv_net *net, int i, float *row_major, float *weights,
                     bool import)
{
    if (i > 0 || net->frames.block == 1)
        return import ? hd_conv_import(net->conv[i], row_major, weights)
                      : hd_conv_export(net->conv[i], weights, row_major);
    const int64_t out = net->channels[0], kernel = net->base.tensors[0].shape[2];
    float *rearranged = hd_alloc(out * net->frames.channels * kernel * kernel, sizeof *rearranged);
    if (!rearranged)
        return HD_ERR_NOMEM;
    if (import)
        hd_frames_rearrange_weights(&net->frames, out, kernel, row_major, rearranged);
    int status = import ? hd_conv_import(net->conv[0], rearranged, weights)
                        : hd_conv_export(net->conv[0], weights, rearranged);
    if (!import)
        hd_frames_restore_weights(&net->frames, out, kernel, rearranged, row_major);
    hd_free(rearranged);
    return status;
}

static int copy_weight(const struct hd_conv_net *net, int i, float *row_major, float *params,
                       bool import)
{
    const struct hd_tensor *tensor = &net->base.tensors[i];
    const int64_t out = tensor->shape[0], in = tensor->shape[1];
    if (i < CONV_TENSORS)
        return copy_conv(net, i / 2, row_major, params + net->conv_offsets[i / 2].weight, import);
    if (i < MID_TENSORS) {
        copy_packed(&net->mid, net->feature, 0, out, in, row_major,
                    params + net->mid_offsets.weight, import);
    } else if ((i - MID_TENSORS) % 4 == 0) {
        copy_packed(&net->hidden, NULL, head_row(net, i, false), out, in, row_major,
                    params + net->hidden_offsets.weight, import);
    } else {
        float *weights = params + net->output_offsets.weight + head_row(net, i, true) * in;
        memcpy(import ? weights : row_major, import ? row_major : weights,
               (size_t)tensor->count * sizeof *row_major);
    }
    return HD_OK;
}

static int64_t bias_offset(const struct hd_conv_net *net, int i)
{
    if (i < CONV_TENSORS)
        return net->conv_offsets[i / 2].bias;
    if (i < MID_TENSORS)
        return net->mid_offsets.bias;
    bool output = (i - MID_TENSORS) % 4 >= 2;
    return (output ? net->output_offsets.bias : net->hidden_offsets.bias) +
           head_row(net, i, output);
}

/* Tensors alternate between weights and biases. */
static int copy_tensor(const struct hd_conv_net *net, int i, float *row_major, float *params,
                       bool import)
{
    if (i % 2 == 0)
        return copy_weight(net, i, row_major, params, import);
    float *bias = params + bias_offset(net, i);
    memcpy(import ? bias : row_major, import ? row_major : bias,
           (size_t)net->base.tensors[i].count * sizeof *row_major);
    return HD_OK;
}

int hd_conv_net_export(const struct hd_net *net, const float *params, int i, float *row_major)
{
    return copy_tensor(as_conv(net), i, row_major, (float *)params, false);
}

int hd_conv_net_import(const struct hd_net *net, const float *row_major, int i, float *params)
{
    return copy_tensor(as_conv(net), i, (float *)row_major, params, true);
}

/* Finds the part of [lo, hi) within a tensor, in the tensor's own elements; returns false if it is
 * empty. */
static bool part_of(const struct hd_layer_offsets *offsets, int64_t lo, int64_t hi, int64_t *lo_p,
                    int64_t *hi_p)
{
    *lo_p = (lo > offsets->weight ? lo : offsets->weight) - offsets->weight;
    *hi_p = (hi < offsets->weight_end ? hi : offsets->weight_end) - offsets->weight;
    return *lo_p < *hi_p;
}

void hd_conv_net_refresh(const struct hd_net *base, void *params, int64_t lo, int64_t hi)
{
    const struct hd_conv_net *net = as_conv(base);
    if (!base->bf16)
        return;
    hd_bf16 *shadows = hd_conv_net_find_shadows(net, params);
    const struct hd_layer_offsets *const packed[] = {&net->hidden_offsets, &net->mid_offsets};
    int64_t from, to;
    for (int i = 0; i < 2; i++)
        if (part_of(packed[i], lo, hi, &from, &to))
            hd_shadow_refresh(NULL, (const float *)params + packed[i]->weight, from, to,
                              shadows + packed[i]->shadow);
    for (int i = 0; i < HD_CONVS; i++)
        if (part_of(&net->conv_offsets[i], lo, hi, &from, &to))
            hd_conv_refresh_shadow(net->conv[i],
                                   (const float *)params + net->conv_offsets[i].weight, from, to,
                                   shadows + net->conv_offsets[i].shadow);
}
