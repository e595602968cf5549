/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/net_dense_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

/* -- Creating a net ---------------------------------------------------------------------------- */

static int add_layer(struct dense_net *net, const char *name, int64_t in, int64_t out, int input)
{
    const int64_t shape[] = {out, in};
    struct layer *layer = &net->layers[net->n_layers];
    *layer = (struct layer){.in = in, .out = out, .input = input, .norm = NO_NORM};
    layer->level = input == FROM_OBS ? 0 : net->layers[input].level + 1;
    layer->weight = net->base.row_major_elements;
    hd_net_add_tensor(&net->base, name, "weight", 2, shape, in);
    layer->bias = net->base.row_major_elements;
    hd_net_add_tensor(&net->base, name, "bias", 1, shape, in);
    net->widest = out > net->widest ? out : net->widest;
    net->widest = in > net->widest ? in : net->widest;
    return net->n_layers++;
}

/* Adds a layer with a ReLU and, in nets with batch norm, a norm between them: modules `first`,
 * `first` + 1, … of the Sequential `name`. Returns the layer's number. */
static int add_hidden(struct dense_net *net, const char *name, int first, int64_t in, int64_t out,
                      int input)
{
    char module[HD_TENSOR_NAME / 2];
    snprintf(module, sizeof module, "%s.%d", name, first);
    const int i = add_layer(net, module, in, out, input);
    struct layer *layer = &net->layers[i];
    layer->hidden = true;
    if (!net->base.batch_norm)
        return i;
    snprintf(module, sizeof module, "%s.%d", name, first + 1);
    layer->feature = net->features;
    net->features += out;
    layer->norm_weight = net->base.row_major_elements;
    layer->norm_bias = layer->norm_weight + out;
    layer->norm = hd_net_add_norm(&net->base, module, out);
    net->base.levels = layer->level + 1;
    return i;
}

/* Adds DI-engine's FCEncoder: init, then main.0, main.2, …, because its modules include the
 * activations. DI-engine's has no batch norm; with batch norm, layers are named as in its fc_block
 * and MLP: init.0, the norm init.1, main.0, the norm main.1, main.3, … */
static int add_encoder(struct dense_net *net, const struct hd_net_fields *fields)
{
    const int modules = net->base.batch_norm ? 3 : 2;
    int last;
    if (net->base.batch_norm) {
        last = add_hidden(net, "encoder.init", 0, net->base.obs, fields->hidden[0], FROM_OBS);
    } else {
        last = add_layer(net, "encoder.init", net->base.obs, fields->hidden[0], FROM_OBS);
        net->layers[last].hidden = true;
    }
    for (int64_t i = 1; i < fields->n_hidden; i++)
        last = add_hidden(net, "encoder.main", modules * (int)(i - 1), fields->hidden[i - 1],
                          fields->hidden[i], last);
    return last;
}

/* Adds a hidden layer as wide as the encoder's last one, the first module of the Sequential
 * `hidden_name`, and an output layer, whose number is returned. */
static int add_stream(struct dense_net *net, int encoder, const char *hidden_name,
                      const char *output_name, int64_t outputs)
{
    int64_t width = net->layers[encoder].out;
    int hidden = add_hidden(net, hidden_name, 0, width, width, encoder);
    return add_layer(net, output_name, width, outputs, hidden);
}

static void add_heads(struct dense_net *net, int encoder)
{
    const int64_t actions = net->base.actions;
    net->of_value = -1;
    switch (net->base.heads) {
    case HD_HEADS_Q:
        net->of_actions = add_stream(net, encoder, "head.Q.0", "head.Q.1.0", actions);
        break;
    case HD_HEADS_DUELING:
        net->of_actions = add_stream(net, encoder, "head.A.0", "head.A.1.0", actions);
        net->of_value = add_stream(net, encoder, "head.V.0", "head.V.1.0", 1);
        break;
    case HD_HEADS_ACTOR_CRITIC:
        net->of_value = add_stream(net, encoder, "critic_head.main", "critic_head.last", 1);
        net->of_actions = add_stream(net, encoder, "actor_head.Q.0", "actor_head.Q.1.0", actions);
        break;
    }
}

static void destroy(struct hd_net *net)
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

static const struct hd_net_ops kind = {
    .destroy = destroy,
    .export_tensor = export,
    .import_tensor = import,
    .forward_bytes = hd_dense_get_forward_bytes,
    .forward = hd_dense_forward,
    .backward_bytes = hd_dense_get_backward_bytes,
    .backward = hd_dense_backward,
    .training_bytes = hd_dense_get_training_bytes,
    .training_sums = hd_dense_count_training_sums,
    .training_forward = hd_dense_training_forward,
    .training_backward = hd_dense_training_backward,
    .update_running = hd_dense_update_running,
};

int hd_dense_net_create(const struct hd_net_fields *fields, struct hd_net **net_p)
{
    const int64_t max_layers = fields->n_hidden + HEAD_LAYERS;
    struct dense_net *net = hd_alloc(1, sizeof *net);
    struct layer *layers = hd_alloc(max_layers, sizeof *layers);
    struct hd_tensor *tensors = hd_alloc(4 * max_layers, sizeof *tensors);
    struct hd_net_norm *norms = hd_alloc(max_layers, sizeof *norms);
    if (!net || !layers || !tensors || !norms) {
        hd_free(net);
        hd_free(layers);
        hd_free(tensors);
        hd_free(norms);
        return HD_ERR_NOMEM;
    }
    net->base = hd_net_make_base(fields);
    net->base.ops = &kind;
    net->base.tensors = tensors;
    net->base.norms = norms;
    net->layers = layers;
    add_heads(net, add_encoder(net, fields));
    net->base.elements = net->base.row_major_elements;
    *net_p = &net->base;
    return HD_OK;
}
