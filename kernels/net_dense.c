/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linear.h"
#include "kernels/net_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

enum { FROM_OBS = -1, HEAD_LAYERS = 4 };

struct layer {
    int64_t in, out;
    bool relu;
    int input;            /* layer that it reads, or FROM_OBS */
    int64_t weight, bias; /* offsets in the flat array */
};

struct dense_net {
    struct hd_net base;
    int64_t widest;
    int of_actions, of_value; /* the output layers; -1: none */
    int n_layers;
    struct layer *layers; /* in order of the forward pass, which is that of the parameters */
};

static const struct dense_net *dense(const struct hd_net *net)
{
    return (const struct dense_net *)net;
}

/* -- Building -----------------------------------------------------------------------------------
 */

static int add_layer(struct dense_net *net, const char *name, int64_t in, int64_t out, bool relu,
                     int input)
{
    const int64_t shape[] = {out, in};
    struct layer *layer = &net->layers[net->n_layers];
    *layer = (struct layer){.in = in, .out = out, .relu = relu, .input = input};
    layer->weight = net->base.plain_elements;
    hd_net_add_tensor(&net->base, name, "weight", 2, shape, in);
    layer->bias = net->base.plain_elements;
    hd_net_add_tensor(&net->base, name, "bias", 1, shape, in);
    net->widest = out > net->widest ? out : net->widest;
    net->widest = in > net->widest ? in : net->widest;
    return net->n_layers++;
}

/* DI-engine's FCEncoder: init, then main.0, main.2, …; its modules count the activations too. */
static int add_encoder(struct dense_net *net, const struct hd_net_fields *fields)
{
    int last = add_layer(net, "encoder.init", net->base.obs, fields->hidden[0], true, FROM_OBS);
    for (int64_t i = 1; i < fields->n_hidden; i++) {
        char name[HD_TENSOR_NAME / 2];
        snprintf(name, sizeof name, "encoder.main.%d", (int)(2 * (i - 1)));
        last = add_layer(net, name, fields->hidden[i - 1], fields->hidden[i], true, last);
    }
    return last;
}

/* A hidden layer as wide as the encoder's last one, and an output layer, which is returned. */
static int add_stream(struct dense_net *net, int encoder, const char *hidden_name,
                      const char *output_name, int64_t outputs)
{
    int64_t width = net->layers[encoder].out;
    int hidden = add_layer(net, hidden_name, width, width, true, encoder);
    return add_layer(net, output_name, width, outputs, false, hidden);
}

static void add_heads(struct dense_net *net, int encoder)
{
    const int64_t actions = net->base.actions;
    net->of_value = -1;
    switch (net->base.heads) {
    case HD_HEADS_Q:
        net->of_actions = add_stream(net, encoder, "head.Q.0.0", "head.Q.1.0", actions);
        break;
    case HD_HEADS_DUELING:
        net->of_actions = add_stream(net, encoder, "head.A.0.0", "head.A.1.0", actions);
        net->of_value = add_stream(net, encoder, "head.V.0.0", "head.V.1.0", 1);
        break;
    case HD_HEADS_ACTOR_CRITIC:
        net->of_value = add_stream(net, encoder, "critic_head.main.0", "critic_head.last", 1);
        net->of_actions = add_stream(net, encoder, "actor_head.Q.0.0", "actor_head.Q.1.0", actions);
        break;
    }
}

static void destroy(struct hd_net *net)
{
    hd_free(((struct dense_net *)net)->layers);
}

/* The flat array is the list of tensors. */
static int export(const struct hd_net *net, const float *params, int i, float *plain)
{
    const struct hd_tensor *tensor = &net->tensors[i];
    memcpy(plain, params + tensor->offset, (size_t)tensor->count * sizeof *plain);
    return HD_OK;
}

static int import(const struct hd_net *net, const float *plain, int i, float *params)
{
    const struct hd_tensor *tensor = &net->tensors[i];
    memcpy(params + tensor->offset, plain, (size_t)tensor->count * sizeof *plain);
    return HD_OK;
}

/* -- Work memory: the observations and every layer's output, feature-major ------------------------
 */

static int64_t padded_floats(int64_t floats)
{
    return (floats + HD_LANES - 1) / HD_LANES * HD_LANES;
}

static int64_t forward_bytes(const struct hd_net *base, int64_t batch)
{
    const struct dense_net *net = dense(base);
    int64_t features = base->obs;
    for (int i = 0; i < net->n_layers; i++)
        features += net->layers[i].out;
    return features * hd_linear_ld(batch) * (int64_t)sizeof(float);
}

static const float *input_of(const struct dense_net *net, const void *work, int input, int64_t ld)
{
    const float *at = work;
    if (input == FROM_OBS)
        return at;
    at += net->base.obs * ld;
    for (int i = 0; i < input; i++)
        at += net->layers[i].out * ld;
    return at;
}

/* q[b][a] = A[a][b] - mean_a A + V[b] (dueling); else what the layers yield. */
static void combine_heads(const struct dense_net *net, const void *work, int64_t batch, int64_t ld,
                          float *q)
{
    const int64_t actions = net->base.actions, outputs = net->base.outputs;
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    const float *v = net->of_value >= 0 ? input_of(net, work, net->of_value, ld) : NULL;
    const float *a = input_of(net, work, net->of_actions, ld);
    for (int64_t b = 0; b < batch; b++) {
        float shift = 0;
        for (int64_t i = 0; i < actions && dueling; i++)
            shift += a[i * ld + b];
        if (dueling)
            shift = v[b] - shift / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            q[b * outputs + i] = a[i * ld + b] + shift;
        if (outputs > actions)
            q[b * outputs + actions] = v[b];
    }
}

/* Columns [first, first + rows) of the input, and zeros behind them. */
static void append_columns(int64_t rows, int64_t features, const float *obs, int64_t first,
                           float *to, int64_t ld)
{
    for (int64_t j = 0; j < features; j++) {
        for (int64_t i = 0; i < rows; i++)
            to[j * ld + first + i] = obs[i * features + j];
        for (int64_t i = first + rows; i < ld; i++)
            to[j * ld + i] = 0;
    }
}

static void normalise(const struct hd_obs_norm *norm, int64_t features, int64_t rows, float *x,
                      int64_t ld)
{
    for (int64_t j = 0; j < features; j++)
        for (int64_t b = 0; b < rows; b++)
            x[j * ld + b] = hd_obs_normal(norm, j, x[j * ld + b]);
}

static int forward(const struct hd_net *base, const void *memory, const struct hd_rows *rows,
                   void *work, float *q)
{
    const struct dense_net *net = dense(base);
    const float *params = memory;
    const int64_t n = rows->n_first + rows->n_second, ld = hd_linear_ld(n);
    hd_transpose(rows->n_first, base->obs, rows->first, base->obs, work, ld);
    if (rows->n_second > 0)
        append_columns(rows->n_second, base->obs, rows->second, rows->n_first, work, ld);
    if (rows->norm)
        normalise(rows->norm, base->obs, n, work, ld);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        const float *x = input_of(net, work, layer->input, ld);
        float *y = (float *)input_of(net, work, i, ld);
        hd_linear_forward(layer->out, layer->in, ld, params + layer->weight, params + layer->bias,
                          layer->relu, x, ld, y, ld);
    }
    combine_heads(net, work, n, ld, q);
    return HD_OK;
}

/* -- Backward -----------------------------------------------------------------------------------
 */

/* Scratch: dL/doutput of every layer (feature-major), then one transposed input. */
static int64_t backward_bytes(const struct hd_net *base, int64_t batch)
{
    const struct dense_net *net = dense(base);
    int64_t features = 0, ld = hd_linear_ld(batch);
    for (int i = 0; i < net->n_layers; i++)
        features += net->layers[i].out;
    return (features * ld + padded_floats(net->widest) * ld) * (int64_t)sizeof(float);
}

static float *delta_of(const struct dense_net *net, void *scratch, int layer, int64_t ld)
{
    float *at = scratch;
    for (int i = 0; i < layer; i++)
        at += net->layers[i].out * ld;
    return at;
}

/* dL/dA = dq - mean_a dq and dL/dV = sum_a dq (dueling); else dq itself. Columns beyond the batch
 * are zero. */
static void split_heads(const struct dense_net *net, const float *dq, int64_t batch, int64_t ld,
                        void *scratch)
{
    const int64_t actions = net->base.actions, outputs = net->base.outputs;
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    float *dv = net->of_value >= 0 ? delta_of(net, scratch, net->of_value, ld) : NULL;
    float *da = delta_of(net, scratch, net->of_actions, ld);
    for (int64_t b = 0; b < ld; b++) {
        const float *row = dq + b * outputs;
        float sum = 0;
        for (int64_t i = 0; i < actions && b < batch && dueling; i++)
            sum += row[i];
        float shift = sum / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            da[i * ld + b] = b < batch ? row[i] - shift : 0;
        if (dv)
            dv[b] = dueling ? sum : b < batch ? row[actions] : 0;
    }
}

static void batch_major(const struct dense_net *net, const struct layer *layer, const void *work,
                        int64_t ld_forward, int64_t batch, float *to)
{
    hd_transpose(layer->in, batch, input_of(net, work, layer->input, ld_forward), ld_forward, to,
                 padded_floats(layer->in));
}

static int backward(const struct hd_net *base, const void *memory, int64_t batch,
                    int64_t forward_batch, const void *work, const float *dq, void *scratch,
                    int stage, float *grad)
{
    const struct dense_net *net = dense(base);
    const float *params = memory;
    int64_t ld = hd_linear_ld(batch), ld_forward = hd_linear_ld(forward_batch);
    float *transposed = delta_of(net, scratch, net->n_layers, ld);
    (void)stage; /* the only one */
    split_heads(net, dq, batch, ld, scratch);
    for (int i = net->n_layers - 1; i >= 0; i--) {
        const struct layer *layer = &net->layers[i];
        const float *dy = delta_of(net, scratch, i, ld);
        batch_major(net, layer, work, ld_forward, batch, transposed);
        hd_linear_backward_weights(layer->out, layer->in, batch, dy, ld, transposed,
                                   padded_floats(layer->in), grad + layer->weight,
                                   grad + layer->bias);
        if (layer->input == FROM_OBS)
            continue;
        /* Two streams meet at the encoder: the last one comes first here, the other adds. */
        bool add = hd_net_has_value(base) && i == net->n_layers - HEAD_LAYERS;
        hd_linear_backward_data(layer->out, layer->in, ld, params + layer->weight, dy, ld, add,
                                input_of(net, work, layer->input, ld_forward), ld_forward,
                                delta_of(net, scratch, layer->input, ld), ld);
    }
    return HD_OK;
}

static const struct hd_net_kind kind = {
    .destroy = destroy,
    .export = export,
    .import = import,
    .forward_bytes = forward_bytes,
    .forward = forward,
    .backward_bytes = backward_bytes,
    .backward = backward,
};

int hd_dense_net_create(const struct hd_net_fields *fields, struct hd_net **net_p)
{
    struct dense_net *net = hd_alloc(1, sizeof *net);
    struct layer *layers = hd_alloc(fields->n_hidden + HEAD_LAYERS, sizeof *layers);
    struct hd_tensor *tensors = hd_alloc(2 * (fields->n_hidden + HEAD_LAYERS), sizeof *tensors);
    if (!net || !layers || !tensors) {
        hd_free(net);
        hd_free(layers);
        hd_free(tensors);
        return HD_ERR_NOMEM;
    }
    net->base = hd_net_base(fields);
    net->base.kind = &kind;
    net->base.tensors = tensors;
    net->layers = layers;
    add_heads(net, add_encoder(net, fields));
    net->base.elements = net->base.plain_elements;
    *net_p = &net->base;
    return HD_OK;
}
