/* SPDX-License-Identifier: Apache-2.0 */
/* The base struct of all kinds of nets: filling it, reading it, releasing it. */
#include "kernels/net/net_internal.h"
#include "runtime/base/alloc.h"

#include <stdio.h>

struct hd_net hd_net_make_base(const struct hd_net_fields *fields)
{
    struct hd_net net = {.obs = 1,
                         .actions = fields->actions,
                         .outputs = fields->actions,
                         .obs_u8 = fields->obs_u8,
                         .heads = fields->heads,
                         .init = fields->init,
                         .batch_norm = fields->norm == HD_NORM_SYNC_BATCH,
                         .bf16 = fields->precision == HD_BF16,
                         .on_gpu = fields->on_gpu};
    for (int i = 0; i < fields->obs_dims; i++) {
        net.obs *= fields->obs_shape[i];
        net.obs_shape[i] = fields->obs_dims == 3 ? fields->obs_shape[i] : 0;
    }
    if (net.heads == HD_HEADS_ACTOR_CRITIC)
        net.outputs++;
    return net;
}

void hd_net_add_tensor(struct hd_net *net, const char *layer, const char *kind, int dims,
                       const int64_t *shape, int64_t fan_in)
{
    struct hd_tensor *tensor = &net->tensors[net->n_tensors++];
    *tensor = (struct hd_tensor){
        .dims = dims, .offset = net->row_major_elements, .count = 1, .fan_in = fan_in};
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", layer, kind);
    for (int i = 0; i < HD_NET_DIMS; i++) {
        tensor->shape[i] = i < dims ? shape[i] : 1;
        tensor->count *= tensor->shape[i];
    }
    net->row_major_elements += tensor->count;
}

int hd_net_add_norm(struct hd_net *net, const char *module, int64_t features)
{
    struct hd_net_norm *norm = &net->norms[net->n_norms];
    *norm = (struct hd_net_norm){.features = features, .mean = hd_net_count_running(net)};
    norm->var = norm->mean + features;
    snprintf(norm->name, sizeof norm->name, "%s", module);
    hd_net_add_tensor(net, module, "weight", 1, &features, 0);
    hd_net_add_tensor(net, module, "bias", 1, &features, 0);
    return net->n_norms++;
}

void hd_net_destroy(struct hd_net *net)
{
    if (!net)
        return;
    for (int i = 0; i < HD_NET_GPUS && net->gpus && net->gpus->release; i++)
        net->gpus->release(net->gpus->on[i]);
    net->ops->destroy(net);
    hd_free(net->gpus);
    hd_free(net->norms);
    hd_free(net->tensors);
    hd_free(net);
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
    return net->obs * (int64_t)(net->obs_u8 ? sizeof(uint8_t) : sizeof(float));
}

bool hd_net_has_u8_obs(const struct hd_net *net)
{
    return net->obs_u8;
}

int64_t hd_net_count_actions(const struct hd_net *net)
{
    return net->actions;
}

enum hd_heads hd_net_get_heads(const struct hd_net *net)
{
    return net->heads;
}

int64_t hd_net_count_outputs(const struct hd_net *net)
{
    return net->outputs;
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
