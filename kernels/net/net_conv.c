/* SPDX-License-Identifier: Apache-2.0 */
/* Creates convolutional nets: their layers and the layout of the flat array. */
#include "kernels/net/net_conv_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* DI-engine's ConvEncoder (docs/di-engine.md 2.1). */
static const int64_t kernels[HD_CONVS] = {8, 4, 3}, strides[HD_CONVS] = {4, 2, 1};

enum { MAX_TENSORS = 16 };

static struct hd_conv_net *conv_net(struct hd_net *net)
{
    return (struct hd_conv_net *)net;
}

int64_t hd_conv_net_get_stride(int i)
{
    return strides[i];
}

const char *hd_conv_net_find_mistake(const struct hd_net_fields *fields,
                                     char message[HD_NET_MESSAGE])
{
    if (fields->n_hidden != 3 && fields->n_hidden != 4) {
        snprintf(message, HD_NET_MESSAGE,
                 "a convolutional encoder takes 3 numbers (channels of three convolutions; the "
                 "last is the width of the dense layer too) or 4 (that width apart), found %lld",
                 (long long)fields->n_hidden);
        return "encoder_hidden_size_list";
    }
    for (int d = 1; d < 3; d++) {
        int64_t side = fields->obs_shape[d];
        for (int i = 0; i < HD_CONVS; i++)
            side = side < kernels[i] ? 0 : (side - kernels[i]) / strides[i] + 1;
        if (side < 1) {
            snprintf(message, HD_NET_MESSAGE,
                     "images of %lld x %lld are too small for convolutions of 8, 4 and 3 with "
                     "strides 4, 2 and 1",
                     (long long)fields->obs_shape[1], (long long)fields->obs_shape[2]);
            return "obs_shape";
        }
    }
    return NULL;
}

/* -- Building ---------------------------------------------------------------------------------- */

static void add_layer(struct hd_conv_net *net, const char *name, int dims, const int64_t *shape)
{
    int64_t fan_in = 1;
    for (int i = 1; i < dims; i++)
        fan_in *= shape[i];
    hd_net_add_tensor(&net->base, name, "weight", dims, shape, fan_in);
    hd_net_add_tensor(&net->base, name, "bias", 1, shape, fan_in);
}

static void add_dense(struct hd_conv_net *net, const char *name, int64_t out, int64_t in)
{
    add_layer(net, name, 2, (const int64_t[]){out, in});
}

static void add_stream(struct hd_conv_net *net, const char *hidden, const char *output,
                       int64_t outputs)
{
    add_dense(net, hidden, net->width, net->width);
    add_dense(net, output, outputs, net->width);
}

static void add_tensors(struct hd_conv_net *net, int64_t features)
{
    static const char *const names[] = {"encoder.main.0", "encoder.main.2", "encoder.main.4"};
    const int64_t width = net->width, actions = net->base.actions;
    int64_t in = net->frames.channels;
    for (int i = 0; i < HD_CONVS; i++) {
        add_layer(net, names[i], 4,
                  (const int64_t[]){net->channels[i], in, kernels[i], kernels[i]});
        in = net->channels[i];
    }
    add_dense(net, "encoder.mid", width, features);
    switch (net->base.heads) {
    case HD_HEADS_Q:
        add_stream(net, "head.Q.0.0", "head.Q.1.0", actions);
        break;
    case HD_HEADS_DUELING:
        add_stream(net, "head.A.0.0", "head.A.1.0", actions);
        add_stream(net, "head.V.0.0", "head.V.1.0", 1);
        break;
    case HD_HEADS_ACTOR_CRITIC:
        add_stream(net, "critic_head.main.0", "critic_head.last", 1);
        add_stream(net, "actor_head.Q.0.0", "actor_head.Q.1.0", actions);
        break;
    }
}

/* Folds the observation by the first stride if its sides allow. */
static void choose_frames(struct hd_conv_net *net, const struct hd_net_fields *fields)
{
    const int64_t *shape = fields->obs_shape, stride = strides[0];
    bool folds = shape[1] % stride == 0 && shape[2] % stride == 0;
    net->frames = (struct hd_frames){.channels = shape[0],
                                     .height = shape[1],
                                     .width = shape[2],
                                     .block = folds ? stride : 1,
                                     .layout = HD_NCHW,
                                     .bf16 = net->base.bf16};
    if (folds)
        net->frames.layout = net->base.bf16 ? HD_NHWC : HD_NCHW16;
}

/* Makes the convolutions and stores the layout and sizes of the last one's output. */
static int make_convs(struct hd_conv_net *net, enum hd_layout *output_p, int64_t *height_p,
                      int64_t *width_p)
{
    const int64_t fold = net->frames.block;
    struct hd_conv_fields fields = {.in_channels = net->frames.channels * fold * fold,
                                    .in_height = net->frames.height / fold,
                                    .in_width = net->frames.width / fold,
                                    .input = net->frames.layout,
                                    .bf16 = net->base.bf16};
    for (int i = 0; i < HD_CONVS; i++) {
        fields.out_channels = net->channels[i];
        fields.kernel = i == 0 ? kernels[0] / fold : kernels[i];
        fields.stride = i == 0 ? strides[0] / fold : strides[i];
        HD_TRY(i == 0 ? hd_conv_create_fast(&fields, &net->conv[0])
                      : hd_conv_create(&fields, &net->conv[i]));
        if (i == 0)
            net->frames.layout = fields.input;
        fields.input = hd_conv_get_output(net->conv[i], &fields.in_height, &fields.in_width);
        fields.in_channels = fields.out_channels;
    }
    *output_p = fields.input;
    *height_p = fields.in_height;
    *width_p = fields.in_width;
    return HD_OK;
}

/* Fills net->feature: the index of each output element among PyTorch's flattened features,
 * [channel][y][x]. */
static int map_features(struct hd_conv_net *net, enum hd_layout layout, int64_t height,
                        int64_t width)
{
    const int64_t channels = net->channels[HD_CONVS - 1], plane = height * width;
    net->feature = hd_alloc(net->mid.in, sizeof *net->feature);
    if (!net->feature)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < net->mid.in; i++) {
        int64_t channel = i / plane, pixel = i % plane;
        if (layout == HD_NHWC) {
            channel = i % channels;
            pixel = i / channels;
        } else if (layout == HD_NCHW16) {
            channel = i / (16 * plane) * 16 + i % 16;
            pixel = i / 16 % plane;
        }
        net->feature[i] = channel < channels ? (int32_t)(channel * plane + pixel) : -1;
    }
    return HD_OK;
}

/* -- Offsets in the flat array ----------------------------------------------------------------- */

struct layout {
    int64_t floats, shadow; /* used so far */
};

static int64_t take(int64_t *used, int64_t n, int64_t *end_p)
{
    int64_t at = (*used + HD_PACK_BLOCK - 1) / HD_PACK_BLOCK * HD_PACK_BLOCK;
    *used = *end_p = at + n;
    return at;
}

static void assign_layer(struct layout *layout, int64_t weights, int64_t biases, int64_t shadow,
                         bool bias_first, struct hd_layer_offsets *offsets)
{
    int64_t unused;
    if (bias_first)
        offsets->bias = take(&layout->floats, biases, &offsets->bias_end);
    offsets->weight = take(&layout->floats, weights, &offsets->weight_end);
    if (!bias_first)
        offsets->bias = take(&layout->floats, biases, &offsets->bias_end);
    offsets->shadow = take(&layout->shadow, shadow, &unused);
}

static void assign_offsets(struct hd_conv_net *net)
{
    struct layout layout = {0};
    const bool bf16 = net->base.bf16;
    const int64_t outputs = hd_heads_count_outputs(net);
    const int64_t hidden = hd_packed_count_weights(&net->hidden),
                  mid = hd_packed_count_weights(&net->mid);
    assign_layer(&layout, outputs * net->width, outputs, 0, false, &net->output_offsets);
    assign_layer(&layout, hidden, hd_packed_count_outputs(&net->hidden), bf16 ? hidden : 0, false,
                 &net->hidden_offsets);
    assign_layer(&layout, mid, hd_packed_count_outputs(&net->mid), bf16 ? mid : 0, true,
                 &net->mid_offsets);
    for (int i = HD_CONVS - 1; i >= 0; i--)
        assign_layer(&layout, hd_conv_count_weights(net->conv[i]), net->channels[i],
                     hd_conv_count_shadow(net->conv[i]), false, &net->conv_offsets[i]);
    net->base.elements = layout.floats;
    int64_t floats_bytes = layout.floats * (int64_t)sizeof(float);
    int64_t shadow_bytes = layout.shadow * (int64_t)sizeof(hd_bf16);
    net->base.params_bytes = hd_align_up(floats_bytes) + hd_align_up(shadow_bytes);
}

/* Cuts `mid` into stages, so that one stage's gradient can be sent while the next is computed. */
static void cut_mid(struct hd_conv_net *net)
{
    const int64_t stage_floats = (16 << 20) / (int64_t)sizeof(float),
                  blocks = hd_packed_count_in_blocks(&net->mid);
    int64_t stages = (hd_packed_count_weights(&net->mid) + stage_floats - 1) / stage_floats;
    net->mid_stage_blocks = (blocks + stages - 1) / stages;
    net->mid_stages = (int)((blocks + net->mid_stage_blocks - 1) / net->mid_stage_blocks);
}

/* Returns the bytes of a row's activations in the front, its outputs counted `times` times. */
static int64_t row_bytes(const struct hd_conv_net *net, int64_t times)
{
    const int64_t outputs =
        hd_conv_count_output_elements(net->conv[0]) + hd_conv_count_output_elements(net->conv[1]);
    return (hd_conv_count_input_elements(net->conv[0]) + times * outputs) *
           (int64_t)hd_conv_net_get_element_bytes(net);
}

/* Products of floats take so long that reading activations again does not matter, so only bf16 nets
 * are cut into parts. */
static int64_t choose_part(const struct hd_conv_net *net, int64_t row)
{
    enum { CACHE_BYTES = 1 << 20, LEAST = 4 };
    const int64_t part = CACHE_BYTES / row;
    return !net->base.bf16 ? INT64_MAX : part > LEAST ? part : LEAST;
}

/* -- Creating a net ---------------------------------------------------------------------------- */

static void destroy(struct hd_net *base)
{
    struct hd_conv_net *net = conv_net(base);
    for (int i = 0; i < HD_CONVS; i++)
        hd_conv_destroy(net->conv[i]);
    hd_free(net->feature);
}

static const struct hd_net_ops kind = {
    .destroy = destroy,
    .export_tensor = hd_conv_net_export,
    .import_tensor = hd_conv_net_import,
    .refresh = hd_conv_net_refresh,
    .prepare = hd_conv_net_prepare,
    .forward_bytes = hd_conv_net_get_forward_bytes,
    .forward = hd_conv_net_forward,
    .stages = hd_conv_net_count_stages,
    .stage_range = hd_conv_net_get_stage_range,
    .backward_bytes = hd_conv_net_get_backward_bytes,
    .backward = hd_conv_net_backward,
};

static int build(struct hd_conv_net *net, const struct hd_net_fields *fields)
{
    enum hd_layout output;
    int64_t height, width;
    for (int i = 0; i < HD_CONVS; i++)
        net->channels[i] = fields->hidden[i];
    net->width = fields->hidden[fields->n_hidden - 1];
    net->streams = hd_net_has_value(&net->base) ? 2 : 1;
    choose_frames(net, fields);
    HD_TRY(make_convs(net, &output, &height, &width));
    net->mid =
        (struct hd_packed){hd_conv_count_output_elements(net->conv[HD_CONVS - 1]), net->width};
    net->hidden = (struct hd_packed){net->width, net->streams * net->width};
    HD_TRY(map_features(net, output, height, width));
    add_tensors(net, net->channels[HD_CONVS - 1] * height * width);
    assign_offsets(net);
    cut_mid(net);
    net->forward_part = choose_part(net, row_bytes(net, 1));
    net->backward_part = choose_part(net, row_bytes(net, 2));
    return HD_OK;
}

int hd_conv_net_create(const struct hd_net_fields *fields, struct hd_net **net_p)
{
    struct hd_conv_net *net = hd_alloc(1, sizeof *net);
    struct hd_tensor *tensors = hd_alloc(MAX_TENSORS, sizeof *tensors);
    if (!net || !tensors) {
        hd_free(net);
        hd_free(tensors);
        return HD_ERR_NOMEM;
    }
    net->base = hd_net_make_base(fields);
    net->base.ops = &kind;
    net->base.tensors = tensors;
    int status = build(net, fields);
    if (status != HD_OK) {
        hd_net_destroy(&net->base);
        return status;
    }
    *net_p = &net->base;
    return HD_OK;
}
