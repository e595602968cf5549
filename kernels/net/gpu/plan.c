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
    if (net->elements > INT32_MAX || plan->narrow + plan->wide > INT32_MAX ||
        plan->gradients + plan->sums > INT32_MAX)
        return hd_fail(HD_ERR_UNSUPPORTED, "a GPU computes nets of up to 2^31 parameters");
    return HD_OK;
}

/* The position of a tensor in the net: its layer, its stream (0: actions), and which of the
 * stream's four tensors it is. */
struct role {
    int layer, stream;
    bool output, bias;
};

static struct role role_of(const struct hd_gpu_plan *plan, int t)
{
    const int behind = t - head_tensors(plan);
    if (behind < 0)
        return (struct role){.layer = t / 2, .bias = t % 2 == 1};
    const bool value_first = plan->net->heads == HD_HEADS_ACTOR_CRITIC;
    const int stream = behind / 4;
    return (struct role){.layer = plan->n_layers - 1,
                         .stream = value_first ? 1 - stream : stream,
                         .output = behind % 4 >= 2,
                         .bias = t % 2 == 1};
}

int hd_gpu_find_layer(const struct hd_gpu_plan *plan, int t)
{
    return role_of(plan, t).layer;
}

/* Returns the column of a layer's weight that holds input i of PyTorch's tensor. Channels come last
 * on a GPU, except in the first convolution, whose input has planes. */
static int64_t column_of(const struct hd_gpu_plan *plan, int l, int64_t i)
{
    const struct hd_gpu_layer *layer = &plan->layers[l];
    if (l == 0 || (!layer->conv && !plan->layers[l - 1].conv))
        return i;
    const struct hd_gpu_window *w = &layer->window;
    const int64_t plane = layer->conv ? w->kernel * w->kernel : plan->layers[l - 1].pixels;
    return i % plane * plan->layers[l - 1].out + i / plane;
}

struct hd_gpu_offsets hd_gpu_find_element(const struct hd_gpu_plan *plan, int t, int64_t j)
{
    const struct hd_tensor *tensor = &plan->net->tensors[t];
    const struct hd_gpu_heads *heads = &plan->heads;
    const struct role role = role_of(plan, t);
    const struct hd_gpu_layer *layer = role.output ? &plan->output : &plan->layers[role.layer];
    const int64_t inputs = tensor->count / tensor->shape[0], i = j % inputs;
    const int64_t row = j / inputs + role.stream * (role.output ? heads->actions : heads->width);
    if (role.bias)
        return (struct hd_gpu_offsets){layer->bias + row, plan->gradients + layer->sums + row};
    if (role.output) /* its gradient has columns for the neurons of both streams */
        return (struct hd_gpu_offsets){layer->weight + row * heads->ld_weight + i,
                                       layer->gradient + row * heads->ld_hidden +
                                           role.stream * heads->width + i};
    const int64_t at = row * layer->in + column_of(plan, role.layer, i);
    return (struct hd_gpu_offsets){layer->weight + at, layer->gradient + at};
}

void *hd_gpu_find_shadow(const struct hd_gpu_plan *plan, const void *params, int64_t at)
{
    char *shadow = (char *)params + hd_align_up(plan->net->elements * (int64_t)sizeof(float));
    const int64_t element = hd_gpu_get_element_bytes(plan);
    if (at < plan->narrow)
        return shadow + at * element;
    return shadow + plan->narrow * element + (at - plan->narrow) * (int64_t)sizeof(float);
}
