/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a net of a fused form on a GPU from its list of layers: its layers and their offsets. */
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stddef.h>

static int64_t filled_up(int64_t n)
{
    return (n + HD_VECTOR - 1) / HD_VECTOR * HD_VECTOR;
}

/* -- Layers ------------------------------------------------------------------------------------ */

/* The encoder's layers have two tensors each, weight and bias; then come four of each stream. */
static int head_tensors(const struct hd_gpu_plan *plan)
{
    return plan->net->n_tensors - 4 * plan->heads.streams;
}

static struct hd_gpu_layer conv_layer(const struct hd_gpu_plan *plan, int i)
{
    const struct hd_layer *layer = &plan->net->list.layers[2 * i];
    const int32_t kernel = (int32_t)layer->fields[HD_CONV_KERNEL];
    const struct hd_gpu_window w = {
        .channels = (int32_t)(i > 0 ? plan->layers[i - 1].out : layer->in.size[0]),
        .height = (int32_t)layer->in.size[1],
        .width = (int32_t)layer->in.size[2],
        .kernel = kernel,
        .stride = (int32_t)layer->fields[HD_CONV_STRIDE],
        .out_height = (int32_t)layer->out.size[1],
        .out_width = (int32_t)layer->out.size[2]};
    return (struct hd_gpu_layer){.in = (int64_t)w.channels * kernel * kernel,
                                 .out = filled_up(layer->out.size[0]),
                                 .pixels = (int64_t)w.out_height * w.out_width,
                                 .conv = true,
                                 .relu = true,
                                 .window = w};
}

/* Describes layer i of the encoder; a dense one after convolutions has no ReLU (DI-engine's
 * `mid`). */
static struct hd_gpu_layer encoder_layer(const struct hd_gpu_plan *plan, int i)
{
    const struct hd_gpu_layer *before = i > 0 ? &plan->layers[i - 1] : NULL;
    if (i < plan->convs)
        return conv_layer(plan, i);
    return (struct hd_gpu_layer){.in = before ? before->pixels * before->out : plan->obs_ld,
                                 .out = filled_up(plan->net->tensors[2 * i].shape[0]),
                                 .pixels = 1,
                                 .relu = plan->convs == 0};
}

static int make_layers(struct hd_gpu_plan *plan)
{
    const struct hd_net *net = plan->net;
    const int encoder = head_tensors(plan) / 2;
    if (encoder >= HD_GPU_LAYERS)
        return hd_fail(HD_ERR_UNSUPPORTED, "a GPU computes nets of up to %d layers", HD_GPU_LAYERS);
    while (plan->convs < encoder && net->tensors[2 * plan->convs].dims == 4)
        plan->convs++;
    for (; plan->n_layers < encoder; plan->n_layers++)
        plan->layers[plan->n_layers] = encoder_layer(plan, plan->n_layers);
    plan->layers[plan->n_layers++] = (struct hd_gpu_layer){.in = plan->layers[encoder - 1].out,
                                                           .out = plan->heads.ld_hidden,
                                                           .pixels = 1,
                                                           .relu = true,
                                                           .wide = true};
    return HD_OK;
}

static struct hd_gpu_heads make_heads(const struct hd_net *net)
{
    struct hd_gpu_heads heads = {.actions = (int32_t)net->actions,
                                 .streams = hd_net_has_value(net) ? 2 : 1,
                                 .dueling = net->heads == HD_HEADS_DUELING};
    heads.width = (int32_t)net->tensors[net->n_tensors - 4].shape[0];
    heads.ld_hidden = filled_up((int64_t)heads.streams * heads.width);
    heads.ld_weight = filled_up(heads.width);
    heads.ld_out = filled_up(hd_gpu_count_head_outputs(&heads));
    return heads;
}

/* -- Offsets ----------------------------------------------------------------------------------- */

enum { UNIT = 64 /* elements: matrices start at multiples of this */ };

static int64_t take(int64_t *used, int64_t n)
{
    const int64_t at = *used;
    *used += (n + UNIT - 1) / UNIT * UNIT;
    return at;
}

static void assign_offsets(struct hd_gpu_plan *plan)
{
    const struct hd_gpu_heads *heads = &plan->heads;
    const int64_t outputs = hd_gpu_count_head_outputs(heads);
    struct hd_gpu_layer *output = &plan->output;
    for (int i = 0; i < plan->n_layers; i++) {
        struct hd_gpu_layer *layer = &plan->layers[i];
        layer->weight = take(&plan->narrow, layer->out * layer->in);
        layer->bias = take(layer->wide ? &plan->wide : &plan->narrow, layer->out);
        layer->gradient = take(&plan->gradients, layer->out * layer->in);
        layer->sums = take(&plan->sums, layer->out);
    }
    output->weight = take(&plan->wide, outputs * heads->ld_weight);
    output->bias = take(&plan->wide, outputs);
    output->gradient = take(&plan->gradients, outputs * heads->ld_hidden);
    output->sums = take(&plan->sums, heads->ld_out);
    output->weight += plan->narrow;
    output->bias += plan->narrow;
    plan->layers[plan->n_layers - 1].bias += plan->narrow;
}

/* Chooses between first convolutions without columns, where first_conv.h supports them, and those
 * with columns. Neither way has been measured on a GPU. */
enum { DIRECT_FIRST_CONV = 1 };

int hd_gpu_plan_make(const struct hd_net *net, struct hd_gpu_plan *plan)
{
    *plan = (struct hd_gpu_plan){.net = net,
                                 .bf16 = net->on_gpu == HD_BF16,
                                 .tf32 = net->on_gpu == HD_TF32,
                                 .obs_ld = filled_up(net->obs)};
    plan->heads = make_heads(net);
    HD_TRY(make_layers(plan));
    plan->direct = DIRECT_FIRST_CONV && plan->convs > 0 && plan->bf16 && net->obs_u8 &&
                   hd_gpu_first_conv_supports(&plan->layers[0].window);
    assign_offsets(plan);
    return HD_OK;
}

int hd_gpu_find_end(const struct hd_gpu_plan *plan, int i)
{
    return i < plan->n_layers - 1 ? 2 * (i + 1) : plan->net->n_tensors;
}

/* The position of a tensor in the net: its layer, or the output layers, the stream (0: actions),
 * and its rows of the layer's matrix, the last of which are padding. */
struct role {
    int layer, stream;
    bool output, bias;
    int64_t first, rows;
};

static struct role role_of(const struct hd_gpu_plan *plan, int t)
{
    const struct hd_gpu_heads *heads = &plan->heads;
    const int behind = t - head_tensors(plan);
    struct role role = {.layer = t / 2, .bias = t % 2 == 1};
    if (behind < 0) {
        role.rows = plan->layers[t / 2].out;
        return role;
    }
    const bool value_first = plan->net->heads == HD_HEADS_ACTOR_CRITIC;
    role.layer = plan->n_layers - 1;
    role.stream = value_first ? 1 - behind / 4 : behind / 4;
    role.output = behind % 4 >= 2;
    role.first = role.stream * (role.output ? heads->actions : heads->width);
    role.rows = role.output || role.stream < heads->streams - 1 ? plan->net->tensors[t].shape[0]
                                                                : heads->ld_hidden - role.first;
    return role;
}

static struct hd_gpu_matrix find_bias(const struct hd_gpu_plan *plan,
                                      const struct hd_gpu_layer *layer, const struct role *role)
{
    return (struct hd_gpu_matrix){.shadow = layer->bias + role->first,
                                  .gradient = plan->gradients + layer->sums + role->first,
                                  .rows = 1,
                                  .columns = role->rows,
                                  .gradient_ld = role->rows,
                                  .inputs = role->rows,
                                  .plane = 1};
}

/* Channels come last on a GPU, except in the first convolution, whose input has planes. */
static void order_columns(const struct hd_gpu_plan *plan, int l, struct hd_gpu_matrix *matrix)
{
    const struct hd_gpu_layer *layer = &plan->layers[l];
    if (l == 0 || (!layer->conv && !plan->layers[l - 1].conv))
        return;
    const struct hd_gpu_window *w = &layer->window;
    matrix->plane = layer->conv ? w->kernel * w->kernel : plan->layers[l - 1].pixels;
    matrix->channels = plan->layers[l - 1].out;
}

/* The gradient of the output layers has columns for the neurons of both streams. */
static struct hd_gpu_matrix find_weight(const struct hd_gpu_plan *plan,
                                        const struct hd_gpu_layer *layer, const struct role *role)
{
    const struct hd_gpu_heads *heads = &plan->heads;
    const int64_t columns = role->output ? heads->ld_weight : layer->in;
    const int64_t ld = role->output ? heads->ld_hidden : layer->in;
    const int64_t before = role->output ? (int64_t)role->stream * heads->width : 0;
    return (struct hd_gpu_matrix){.shadow = layer->weight + role->first * columns,
                                  .gradient = layer->gradient + role->first * ld + before,
                                  .rows = role->rows,
                                  .columns = columns,
                                  .gradient_ld = ld,
                                  .plane = 1};
}

struct hd_gpu_matrix hd_gpu_find_matrix(const struct hd_gpu_plan *plan, int t)
{
    const struct hd_tensor *tensor = &plan->net->tensors[t];
    const struct role role = role_of(plan, t);
    const struct hd_gpu_layer *layer = role.output ? &plan->output : &plan->layers[role.layer];
    if (role.bias)
        return find_bias(plan, layer, &role);
    struct hd_gpu_matrix matrix = find_weight(plan, layer, &role);
    matrix.inputs = tensor->count / tensor->shape[0];
    if (!role.output)
        order_columns(plan, role.layer, &matrix);
    return matrix;
}

void *hd_gpu_find_shadow(const struct hd_gpu_plan *plan, const void *params, int64_t at)
{
    char *shadow = hd_net_on_gpu_get_shadow(plan->net, params);
    const int64_t element = hd_gpu_get_element_bytes(plan);
    if (at < plan->narrow)
        return shadow + at * element;
    return shadow + plan->narrow * element + (at - plan->narrow) * (int64_t)sizeof(float);
}
