/* SPDX-License-Identifier: Apache-2.0 */
/* Creates convolutional nets: their layers and the layout of the flat array. */
#include "kernels/net/net_conv_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

static struct hd_conv_net *conv_net(struct hd_net *net)
{
    return (struct hd_conv_net *)net;
}

/* -- Building ---------------------------------------------------------------------------------- */

/* Returns convolution i of the list; a ReLU follows each. */
static const struct hd_layer *get_conv(const struct hd_conv_net *net, int i)
{
    return &net->base.list.layers[2 * i];
}

/* Folds the observation by the first stride if its sides allow. */
static void choose_frames(struct hd_conv_net *net)
{
    const int64_t *shape = net->base.list.obs.size;
    const int64_t stride = get_conv(net, 0)->fields[HD_CONV_STRIDE];
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

/* Makes the convolutions and stores the layout of the last one's output. */
static int make_convs(struct hd_conv_net *net, enum hd_layout *output_p)
{
    const int64_t fold = net->frames.block;
    struct hd_conv_fields fields = {.in_channels = net->frames.channels * fold * fold,
                                    .in_height = net->frames.height / fold,
                                    .in_width = net->frames.width / fold,
                                    .input = net->frames.layout,
                                    .relu = true,
                                    .bf16 = net->base.bf16};
    for (int i = 0; i < HD_CONVS; i++) {
        const int64_t *conv = get_conv(net, i)->fields;
        fields.out_channels = net->channels[i];
        fields.kernel = i == 0 ? conv[HD_CONV_KERNEL] / fold : conv[HD_CONV_KERNEL];
        fields.stride = i == 0 ? conv[HD_CONV_STRIDE] / fold : conv[HD_CONV_STRIDE];
        HD_TRY(i == 0 ? hd_conv_create_fast(&fields, &net->conv[0])
                      : hd_conv_create(&fields, &net->conv[i]));
        if (i == 0)
            net->frames.layout = fields.input;
        fields.input = hd_conv_get_output(net->conv[i], &fields.in_height, &fields.in_width);
        fields.in_channels = fields.out_channels;
    }
    *output_p = fields.input;
    return HD_OK;
}

/* Fills net->feature: the index of each output element among PyTorch's flattened features,
 * [channel][y][x]. */
static int map_features(struct hd_conv_net *net, enum hd_layout layout)
{
    const int64_t channels = net->channels[HD_CONVS - 1];
    const int64_t plane = hd_shape_count_plane(&get_conv(net, HD_CONVS - 1)->out);
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

static void net_conv_destroy(struct hd_net *base)
{
    struct hd_conv_net *net = conv_net(base);
    for (int i = 0; i < HD_CONVS; i++)
        hd_conv_destroy(net->conv[i]);
    hd_free(net->feature);
}

static const struct hd_net_ops ops = {
    .destroy = net_conv_destroy,
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

/* The trunk: convolutions with ReLU, flatten, and the dense layer `mid`. */
enum { MID = 2 * HD_CONVS + 1, TRUNK = MID + 1 };

static int net_conv_build(struct hd_net *base)
{
    struct hd_conv_net *net = (struct hd_conv_net *)base;
    enum hd_layout output;
    for (int i = 0; i < HD_CONVS; i++)
        net->channels[i] = get_conv(net, i)->fields[HD_CONV_CHANNELS];
    net->width = net->base.list.layers[MID].fields[HD_DENSE_OUT];
    net->streams = hd_net_has_value(&net->base) ? 2 : 1;
    choose_frames(net);
    HD_TRY(make_convs(net, &output));
    net->mid =
        (struct hd_packed){hd_conv_count_output_elements(net->conv[HD_CONVS - 1]), net->width};
    net->hidden = (struct hd_packed){net->width, net->streams * net->width};
    HD_TRY(map_features(net, output));
    assign_offsets(net);
    cut_mid(net);
    net->forward_part = choose_part(net, row_bytes(net, 1));
    net->backward_part = choose_part(net, row_bytes(net, 2));
    return HD_OK;
}

static bool is_conv(const struct hd_layer *layer, int64_t kernel, int64_t stride)
{
    return layer[0].type == &hd_layer_conv && layer[1].type == &hd_layer_relu &&
           layer->fields[HD_CONV_KERNEL] == kernel && layer->fields[HD_CONV_STRIDE] == stride &&
           layer->fields[HD_CONV_PADDING] == 0;
}

/* A stream has a hidden layer as wide as its input, and an output layer. */
static bool is_stream(const struct hd_layer *layers, int64_t n)
{
    return n == 3 && layers[0].type == &hd_layer_dense && layers[1].type == &hd_layer_relu &&
           hd_shape_is_equal(&layers[0].in, &layers[0].out);
}

/* The kernels are made for DI-engine's convolutions, with any number of channels. */
static bool fits(const struct hd_layer_list *list)
{
    static const int64_t kernels[HD_CONVS] = {8, 4, 3}, strides[HD_CONVS] = {4, 2, 1};
    if (list->obs.dims != 3 || list->trunk != TRUNK ||
        list->layers[MID - 1].type != &hd_layer_flatten ||
        list->layers[MID].type != &hd_layer_dense)
        return false;
    for (int i = 0; i < HD_CONVS; i++)
        if (!is_conv(&list->layers[2 * i], kernels[i], strides[i]))
            return false;
    for (int i = 0; i < list->n_streams; i++)
        if (!is_stream(list->layers + hd_layer_list_find_stream(list, i), list->streams[i].layers))
            return false;
    return true;
}

const struct hd_net_kind hd_conv_net_kind = {
    .fits = fits, .ops = &ops, .bytes = sizeof(struct hd_conv_net), .build = net_conv_build};
