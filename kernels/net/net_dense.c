/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/net_dense_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Creating a net ---------------------------------------------------------------------------- */

/* Adds the dense layer i of the list, which reads layer `input`. */
static int add_layer(struct dense_net *net, int64_t i, int input)
{
    const struct hd_layer *described = &net->base.list.layers[i];
    struct layer *layer = &net->layers[net->n_layers];
    *layer = (struct layer){.in = described->in.size[0],
                            .out = described->out.size[0],
                            .input = input,
                            .norm = NO_NORM,
                            .weight = hd_net_get_layer_tensor(&net->base, i, 0)->offset,
                            .bias = hd_net_get_layer_tensor(&net->base, i, 1)->offset};
    layer->level = input == FROM_OBS ? 0 : net->layers[input].level + 1;
    for (int j = 0; j < net->n_layers; j++)
        net->layers[j].adds |= net->layers[j].input == input;
    net->widest = layer->out > net->widest ? layer->out : net->widest;
    net->widest = layer->in > net->widest ? layer->in : net->widest;
    return net->n_layers++;
}

/* Puts the batch norm i of the list between the last layer and its ReLU. */
static void add_norm(struct dense_net *net, int64_t i)
{
    struct layer *layer = &net->layers[net->n_layers - 1];
    layer->norm = net->base.list.layers[i].norm;
    layer->norm_weight = hd_net_get_layer_tensor(&net->base, i, 0)->offset;
    layer->norm_bias = hd_net_get_layer_tensor(&net->base, i, 1)->offset;
    layer->feature = net->features;
    net->features += layer->out;
    net->base.levels = layer->level + 1;
}

/* Adds layers [first, first + n) of the list, of which the first dense one reads layer `input`.
 * Returns the number of the last one. */
static int add_layers(struct dense_net *net, int64_t first, int64_t n, int input)
{
    for (int64_t i = first; i < first + n; i++) {
        const struct hd_layer_type *type = net->base.list.layers[i].type;
        if (type == &hd_layer_dense)
            input = add_layer(net, i, input);
        else if (type == &hd_layer_batch_norm)
            add_norm(net, i);
        else if (type == &hd_layer_log_std)
            net->log_std = hd_net_get_layer_tensor(&net->base, i, 0)->offset;
        else
            net->layers[input].hidden = true;
    }
    return input;
}

static void add_all(struct dense_net *net)
{
    const struct hd_layer_list *list = &net->base.list;
    const int encoder = add_layers(net, 0, list->trunk, FROM_OBS);
    net->of_value = -1;
    net->log_std = -1;
    for (int i = 0; i < list->n_streams; i++) {
        const int last =
            add_layers(net, hd_layer_list_find_stream(list, i), list->streams[i].layers, encoder);
        *(list->streams[i].output == HD_OUTPUT_VALUE ? &net->of_value : &net->of_actions) = last;
    }
}

static void net_dense_destroy(struct hd_net *net)
{
    hd_free(((struct dense_net *)net)->layers);
}

/* The flat array is the list of tensors, so tensors are only copied. */
static int export(const struct hd_net *net, const float *params, int i, float *row_major)
{
    const struct hd_tensor *tensor = &net->tensors[i];
    memcpy(row_major, params + tensor->offset, (size_t)tensor->count * sizeof *row_major);
    return HD_OK;
}

static int import(const struct hd_net *net, const float *row_major, int i, float *params)
{
    const struct hd_tensor *tensor = &net->tensors[i];
    memcpy(params + tensor->offset, row_major, (size_t)tensor->count * sizeof *row_major);
    return HD_OK;
}

static const struct hd_net_ops ops = {
    .destroy = net_dense_destroy,
    .export_tensor = export,
    .import_tensor = import,
    .forward_bytes = hd_dense_get_forward_bytes,
    .forward = hd_dense_forward,
    .backward_bytes = hd_dense_get_backward_bytes,
    .backward = hd_dense_backward,
    .backward_obs = hd_dense_backward_obs,
    .training_bytes = hd_dense_get_training_bytes,
    .training_sums = hd_dense_count_training_sums,
    .training_forward = hd_dense_training_forward,
    .training_backward = hd_dense_training_backward,
    .update_running = hd_dense_update_running,
};

/* Returns whether `n` layers are those of a hidden layer: dense, with batch norm or without, and a
 * ReLU. */
static bool is_hidden(const struct hd_layer *layers, int64_t n, bool norm)
{
    return n == (norm ? 3 : 2) && layers[0].type == &hd_layer_dense &&
           (!norm || layers[1].type == &hd_layer_batch_norm) &&
           layers[n - 1].type == &hd_layer_relu;
}

static bool are_hidden(const struct hd_layer *layers, int64_t n, bool norm)
{
    const int64_t hidden = norm ? 3 : 2;
    for (int64_t i = 0; i < n; i += hidden)
        if (!is_hidden(layers + i, hidden < n - i ? hidden : n - i, norm))
            return false;
    return true;
}

/* Returns whether the trunk has hidden layers only, and whether they have batch norms. */
static bool has_hidden_trunk(const struct hd_layer_list *list, bool *norm_p)
{
    *norm_p = list->trunk > 1 && list->layers[1].type == &hd_layer_batch_norm;
    return list->obs.dims == 1 && list->trunk > 0 && are_hidden(list->layers, list->trunk, *norm_p);
}

/* In DI-engine's form a stream has a hidden layer as wide as its input, and an output layer. */
static bool is_di_engine_s(const struct hd_layer_list *list)
{
    bool norm;
    if (!has_hidden_trunk(list, &norm))
        return false;
    for (int i = 0; i < list->n_streams; i++) {
        const struct hd_layer *first = list->layers + hd_layer_list_find_stream(list, i);
        if (!is_hidden(first, list->streams[i].layers - 1, norm) ||
            !hd_shape_is_equal(&first->in, &first->out))
            return false;
    }
    return true;
}

/* Returns the number of a stream's layers before its output layer, after which parameters may make
 * half of the numbers. */
static int64_t count_hidden(const struct hd_layer *first, int64_t n)
{
    return n - (first[n - 1].type == &hd_layer_log_std ? 2 : 1);
}

/* Without batch norms a stream has any number of hidden layers before its output layer. */
static bool fits(const struct hd_layer_list *list)
{
    bool norm;
    if (!has_hidden_trunk(list, &norm) || norm)
        return is_di_engine_s(list);
    for (int i = 0; i < list->n_streams; i++) {
        const struct hd_layer *first = list->layers + hd_layer_list_find_stream(list, i);
        if (!are_hidden(first, count_hidden(first, list->streams[i].layers), false))
            return false;
    }
    return true;
}

static int net_dense_build(struct hd_net *base)
{
    struct dense_net *net = (struct dense_net *)base;
    net->layers = hd_alloc(base->list.n, sizeof *net->layers);
    if (!net->layers)
        return HD_ERR_NOMEM;
    add_all(net);
    base->elements = base->row_major_elements;
    return HD_OK;
}

const struct hd_net_kind hd_dense_net_kind = {.fits = fits,
                                              .on_gpu = is_di_engine_s,
                                              .ops = &ops,
                                              .bytes = sizeof(struct dense_net),
                                              .build = net_dense_build};
