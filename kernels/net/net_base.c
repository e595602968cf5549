/* SPDX-License-Identifier: Apache-2.0 */
/* The base of a net: filling it, reading it, releasing it. */
#include "kernels/net/net_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>

static void add_tensor(struct hd_net *net, const struct hd_layer *layer, const char *name,
                       enum hd_output output, const struct hd_tensor *described)
{
    struct hd_tensor *tensor = &net->tensors[net->n_tensors++];
    *tensor = *described;
    tensor->offset = net->row_major_elements;
    tensor->output = output;
    snprintf(tensor->name, sizeof tensor->name, "%s.%.15s", layer->module,
             described->name[0] ? described->name : name);
    net->row_major_elements += tensor->count;
}

static void add_norm(struct hd_net *net, struct hd_layer *layer)
{
    const int64_t features = layer->in.size[0];
    struct hd_net_norm *norm = &net->norms[net->n_norms];
    *norm = (struct hd_net_norm){.features = features, .mean = hd_net_count_running(net)};
    norm->var = norm->mean + features;
    snprintf(norm->name, sizeof norm->name, "%s", layer->module);
    layer->norm = net->n_norms++;
    net->batch_norm = true;
}

/* Returns whether layer i is the last one of a stream [.., end) with weights that are multiplied.
 */
static bool is_output(const struct hd_net *net, int64_t i, int64_t end)
{
    const bool log_std = net->list.layers[end - 1].type == &hd_layer_log_std;
    return i >= end - (log_std ? 2 : 1);
}

static void add_layers(struct hd_net *net, int64_t first, int64_t n, enum hd_output output)
{
    static const char *const names[HD_LAYER_TENSORS] = {"weight", "bias"};
    struct hd_tensor tensors[HD_LAYER_TENSORS];
    for (int64_t i = first; i < first + n; i++) {
        struct hd_layer *layer = &net->list.layers[i];
        const bool last = is_output(net, i, first + n);
        const int count = hd_layer_list_tensors(layer, tensors);
        layer->tensor = net->n_tensors;
        layer->state = net->state;
        layer->bf16 = net->bf16;
        net->state += hd_layer_count_state(layer);
        for (int t = 0; t < count; t++)
            add_tensor(net, layer, names[t], last ? output : HD_OUTPUT_NONE, &tensors[t]);
        if (layer->type->batch)
            add_norm(net, layer);
    }
}

int hd_net_fill_base(struct hd_net *net, const struct hd_net_fields *fields,
                     const struct hd_layer_list *list)
{
    net->list = *list;
    net->obs = hd_shape_count(&list->obs);
    net->actions = net->outputs = fields->actions;
    net->obs_u8 = fields->obs_u8;
    net->heads = fields->heads;
    net->init = fields->init;
    net->bf16 = fields->precision == HD_BF16;
    net->gpu_precision = fields->on_gpu;
    if (net->heads == HD_HEADS_ACTOR_CRITIC)
        net->outputs++;
    net->tensors = hd_alloc(HD_LAYER_TENSORS * list->n, sizeof *net->tensors);
    net->norms = hd_alloc(list->n, sizeof *net->norms);
    if (!net->tensors || !net->norms)
        return HD_ERR_NOMEM;
    add_layers(net, 0, list->trunk, HD_OUTPUT_NONE);
    for (int i = 0; i < list->n_streams; i++)
        add_layers(net, hd_layer_list_find_stream(list, i), list->streams[i].layers,
                   list->streams[i].output);
    return HD_OK;
}

void hd_net_release_base(struct hd_net *net)
{
    for (int i = 0; i < HD_NET_GPUS && net->gpus && net->gpus->release; i++)
        net->gpus->release(net->gpus->on[i]);
    hd_free(net->gpus);
    hd_free(net->list.layers);
    hd_free(net->norms);
    hd_free(net->tensors);
}

int64_t hd_net_count_params(const struct hd_net *net)
{
    return net->elements;
}

int64_t hd_net_get_params_bytes(const struct hd_net *net)
{
    return net->params_bytes;
}

int64_t hd_net_count_obs(const struct hd_net *net)
{
    return net->obs;
}

int64_t hd_net_get_obs_bytes(const struct hd_net *net)
{
    return net->list.frames * net->list.frame_bytes;
}

bool hd_net_has_u8_obs(const struct hd_net *net)
{
    return net->obs_u8;
}

bool hd_net_has_inputs(const struct hd_net *net)
{
    return net->list.joined;
}

int64_t hd_net_count_actions(const struct hd_net *net)
{
    return net->actions;
}

enum hd_heads hd_net_get_heads(const struct hd_net *net)
{
    return net->heads;
}

bool hd_net_is_short_form(const struct hd_net *net)
{
    return net->short_form;
}

const struct hd_layer *hd_net_find_cpu_layer(const struct hd_net *net)
{
    for (int64_t i = 0; i < net->list.n; i++) {
        const struct hd_layer_type *type = net->list.layers[i].type;
        if (hd_layer_type_computes(type) && !type->gpu && !type->has_gpu_impl)
            return &net->list.layers[i];
    }
    return NULL;
}

int64_t hd_net_count_outputs(const struct hd_net *net)
{
    return net->outputs;
}

int64_t hd_net_count_state(const struct hd_net *net)
{
    return net->state;
}

const struct hd_layer_list *hd_net_get_layers(const struct hd_net *net)
{
    return &net->list;
}

int hd_net_count_tensors(const struct hd_net *net)
{
    return net->n_tensors;
}

const struct hd_tensor *hd_net_get_tensor(const struct hd_net *net, int i)
{
    return &net->tensors[i];
}

int hd_net_count_levels(const struct hd_net *net)
{
    return net->levels;
}

int hd_net_count_norms(const struct hd_net *net)
{
    return net->n_norms;
}

const struct hd_net_norm *hd_net_get_norm(const struct hd_net *net, int i)
{
    return &net->norms[i];
}

int64_t hd_net_count_running(const struct hd_net *net)
{
    int64_t floats = 0;
    for (int i = 0; i < net->n_norms; i++)
        floats += 2 * net->norms[i].features;
    return floats;
}
