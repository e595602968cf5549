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

static void add_heads(struct dense_net *net, const struct hd_net_fields *fields, int encoder)
{
    int64_t width = fields->hidden[fields->n_hidden - 1];
    if (!fields->dueling) {
        int hidden = add_layer(net, "head.Q.0.0", width, width, true, encoder);
        add_layer(net, "head.Q.1.0", width, fields->actions, false, hidden);
        return;
    }
    int advantage = add_layer(net, "head.A.0.0", width, width, true, encoder);
    add_layer(net, "head.A.1.0", width, fields->actions, false, advantage);
    int value = add_layer(net, "head.V.0.0", width, width, true, encoder);
    add_layer(net, "head.V.1.0", width, 1, false, value);
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

/* q[b][a] = A[a][b] - mean_a A + V[b] (dueling), or the last layer. */
static void combine_heads(const struct dense_net *net, const void *work, int64_t batch, int64_t ld,
                          float *q)
{
    const int64_t actions = net->base.actions;
    int last = net->n_layers - 1;
    const float *v = net->base.dueling ? input_of(net, work, last, ld) : NULL;
    const float *a = input_of(net, work, net->base.dueling ? last - 2 : last, ld);
    for (int64_t b = 0; b < batch; b++) {
        float shift = 0;
        if (v) {
            for (int64_t i = 0; i < actions; i++)
                shift += a[i * ld + b];
            shift = v[b] - shift / (float)actions;
        }
        for (int64_t i = 0; i < actions; i++)
            q[b * actions + i] = a[i * ld + b] + shift;
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

static int forward(const struct hd_net *base, const void *memory, const void *first,
                   int64_t n_first, const void *second, int64_t n_second, bool floats, void *work,
                   float *q)
{
    const struct dense_net *net = dense(base);
    const float *params = memory;
    int64_t ld = hd_linear_ld(n_first + n_second);
    (void)floats; /* they are floats anyway */
    hd_transpose(n_first, base->obs, first, base->obs, work, ld);
    if (n_second > 0)
        append_columns(n_second, base->obs, second, n_first, work, ld);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        const float *x = input_of(net, work, layer->input, ld);
        float *y = (float *)input_of(net, work, i, ld);
        hd_linear_forward(layer->out, layer->in, ld, params + layer->weight, params + layer->bias,
                          layer->relu, x, ld, y, ld);
    }
    combine_heads(net, work, n_first + n_second, ld, q);
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

/* dL/dA = dq - mean_a dq and dL/dV = sum_a dq (dueling); columns beyond the batch are zero. */
static void split_heads(const struct dense_net *net, const float *dq, int64_t batch, int64_t ld,
                        void *scratch)
{
    const int64_t actions = net->base.actions;
    int last = net->n_layers - 1;
    float *dv = net->base.dueling ? delta_of(net, scratch, last, ld) : NULL;
    float *da = delta_of(net, scratch, net->base.dueling ? last - 2 : last, ld);
    for (int64_t b = 0; b < ld; b++) {
        float sum = 0;
        for (int64_t i = 0; i < actions && b < batch; i++)
            sum += dq[b * actions + i];
        float shift = dv ? sum / (float)actions : 0;
        for (int64_t i = 0; i < actions; i++)
            da[i * ld + b] = b < batch ? dq[b * actions + i] - shift : 0;
        if (dv)
            dv[b] = sum;
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
        /* The two streams of a dueling head meet at the encoder: V comes first here, A adds. */
        bool add = base->dueling && layer->input == net->layers[net->n_layers - 2].input &&
                   i == net->n_layers - 4;
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
    net->base = (struct hd_net){.kind = &kind,
                                .tensors = tensors,
                                .obs = fields->obs_shape[0],
                                .actions = fields->actions,
                                .dueling = fields->dueling};
    net->layers = layers;
    add_heads(net, fields, add_encoder(net, fields));
    net->base.elements = net->base.plain_elements;
    *net_p = &net->base;
    return HD_OK;
}
