/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net.h"

#include "kernels/linear.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>

enum { FROM_OBS = -1, HEAD_LAYERS = 4 };

struct layer {
    int64_t in, out;
    bool relu;
    int input;            /* layer that it reads, or FROM_OBS */
    int64_t weight, bias; /* offsets in the flat array */
};

struct hd_net {
    int64_t obs, actions, elements, widest;
    bool dueling;
    int n_layers, n_tensors;
    struct layer *layers; /* in order of the forward pass, which is that of the parameters */
    struct hd_tensor *tensors;
};

/* -- Building -----------------------------------------------------------------------------------
 */

static void add_tensor(struct hd_net *net, const char *layer, const char *kind, int dims,
                       int64_t rows, int64_t columns, int64_t fan_in)
{
    struct hd_tensor *tensor = &net->tensors[net->n_tensors++];
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", layer, kind);
    tensor->dims = dims;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->offset = net->elements;
    tensor->count = rows * columns;
    tensor->fan_in = fan_in;
    net->elements += tensor->count;
}

static int add_layer(struct hd_net *net, const char *name, int64_t in, int64_t out, bool relu,
                     int input)
{
    struct layer *layer = &net->layers[net->n_layers];
    *layer = (struct layer){.in = in, .out = out, .relu = relu, .input = input};
    layer->weight = net->elements;
    add_tensor(net, name, "weight", 2, out, in, in);
    layer->bias = net->elements;
    add_tensor(net, name, "bias", 1, out, 1, in);
    net->widest = out > net->widest ? out : net->widest;
    net->widest = in > net->widest ? in : net->widest;
    return net->n_layers++;
}

/* DI-engine's FCEncoder: init, then main.0, main.2, …; its modules count the activations too. */
static int add_encoder(struct hd_net *net, const struct hd_net_fields *fields)
{
    int last = add_layer(net, "encoder.init", fields->obs, fields->hidden[0], true, FROM_OBS);
    for (int64_t i = 1; i < fields->n_hidden; i++) {
        char name[HD_TENSOR_NAME / 2];
        snprintf(name, sizeof name, "encoder.main.%d", (int)(2 * (i - 1)));
        last = add_layer(net, name, fields->hidden[i - 1], fields->hidden[i], true, last);
    }
    return last;
}

static void add_heads(struct hd_net *net, const struct hd_net_fields *fields, int encoder)
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

int hd_net_create(const struct hd_net_fields *fields, struct hd_net **net_p)
{
    struct hd_net *net = hd_alloc(1, sizeof *net);
    if (!net)
        return HD_ERR_NOMEM;
    int64_t most = fields->n_hidden + HEAD_LAYERS;
    net->layers = hd_alloc(most, sizeof *net->layers);
    net->tensors = hd_alloc(2 * most, sizeof *net->tensors);
    if (!net->layers || !net->tensors) {
        hd_net_destroy(net);
        return HD_ERR_NOMEM;
    }
    net->obs = fields->obs;
    net->actions = fields->actions;
    net->dueling = fields->dueling;
    add_heads(net, fields, add_encoder(net, fields));
    *net_p = net;
    return HD_OK;
}

void hd_net_destroy(struct hd_net *net)
{
    if (!net)
        return;
    hd_free(net->layers);
    hd_free(net->tensors);
    hd_free(net);
}

int64_t hd_net_elements(const struct hd_net *net)
{
    return net->elements;
}

int64_t hd_net_obs(const struct hd_net *net)
{
    return net->obs;
}

int64_t hd_net_actions(const struct hd_net *net)
{
    return net->actions;
}

int hd_net_tensors(const struct hd_net *net)
{
    return net->n_tensors;
}

const struct hd_tensor *hd_net_tensor(const struct hd_net *net, int i)
{
    return &net->tensors[i];
}

void hd_net_init(const struct hd_net *net, const struct hd_rng *rng, float *params)
{
    for (int t = 0; t < net->n_tensors; t++) {
        const struct hd_tensor *tensor = &net->tensors[t];
        double bound = 1.0 / sqrt((double)tensor->fan_in);
        for (int64_t j = tensor->offset; j < tensor->offset + tensor->count; j++)
            params[j] = (float)((2.0 * hd_rng_uniform(rng, (uint32_t)j) - 1.0) * bound);
    }
}

/* -- Work memory: the observations and every layer's output, feature-major ------------------------
 */

static int64_t padded_floats(int64_t floats)
{
    return (floats + HD_LANES - 1) / HD_LANES * HD_LANES;
}

int64_t hd_net_forward_bytes(const struct hd_net *net, int64_t batch)
{
    int64_t features = net->obs;
    for (int i = 0; i < net->n_layers; i++)
        features += net->layers[i].out;
    return features * hd_linear_ld(batch) * (int64_t)sizeof(float);
}

static const float *input_of(const struct hd_net *net, const void *work, int input, int64_t ld)
{
    const float *at = work;
    if (input == FROM_OBS)
        return at;
    at += net->obs * ld;
    for (int i = 0; i < input; i++)
        at += net->layers[i].out * ld;
    return at;
}

/* q[b][a] = A[a][b] - mean_a A + V[b] (dueling), or the last layer. */
static void combine_heads(const struct hd_net *net, const void *work, int64_t batch, int64_t ld,
                          float *q)
{
    int last = net->n_layers - 1;
    const float *v = net->dueling ? input_of(net, work, last, ld) : NULL;
    const float *a = input_of(net, work, net->dueling ? last - 2 : last, ld);
    for (int64_t b = 0; b < batch; b++) {
        float shift = 0;
        if (v) {
            for (int64_t i = 0; i < net->actions; i++)
                shift += a[i * ld + b];
            shift = v[b] - shift / (float)net->actions;
        }
        for (int64_t i = 0; i < net->actions; i++)
            q[b * net->actions + i] = a[i * ld + b] + shift;
    }
}

void hd_net_forward(const struct hd_net *net, const float *params, const float *obs, int64_t batch,
                    void *work, float *q)
{
    int64_t ld = hd_linear_ld(batch);
    hd_transpose(batch, net->obs, obs, net->obs, work, ld);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        const float *x = input_of(net, work, layer->input, ld);
        float *y = (float *)input_of(net, work, i, ld);
        hd_linear_forward(layer->out, layer->in, ld, params + layer->weight, params + layer->bias,
                          layer->relu, x, ld, y, ld);
    }
    combine_heads(net, work, batch, ld, q);
}

/* -- Backward -----------------------------------------------------------------------------------
 */

/* Scratch: dL/doutput of every layer (feature-major), then one transposed input. */
int64_t hd_net_backward_bytes(const struct hd_net *net, int64_t batch)
{
    int64_t features = 0, ld = hd_linear_ld(batch);
    for (int i = 0; i < net->n_layers; i++)
        features += net->layers[i].out;
    return (features * ld + padded_floats(net->widest) * ld) * (int64_t)sizeof(float);
}

static float *delta_of(const struct hd_net *net, void *scratch, int layer, int64_t ld)
{
    float *at = scratch;
    for (int i = 0; i < layer; i++)
        at += net->layers[i].out * ld;
    return at;
}

/* dL/dA = dq - mean_a dq and dL/dV = sum_a dq (dueling); columns beyond the batch are zero. */
static void split_heads(const struct hd_net *net, const float *dq, int64_t batch, int64_t ld,
                        void *scratch)
{
    int last = net->n_layers - 1;
    float *dv = net->dueling ? delta_of(net, scratch, last, ld) : NULL;
    float *da = delta_of(net, scratch, net->dueling ? last - 2 : last, ld);
    for (int64_t b = 0; b < ld; b++) {
        float sum = 0;
        for (int64_t i = 0; i < net->actions && b < batch; i++)
            sum += dq[b * net->actions + i];
        float shift = dv ? sum / (float)net->actions : 0;
        for (int64_t i = 0; i < net->actions; i++)
            da[i * ld + b] = b < batch ? dq[b * net->actions + i] - shift : 0;
        if (dv)
            dv[b] = sum;
    }
}

static void batch_major(const struct hd_net *net, const struct layer *layer, const void *work,
                        int64_t ld_forward, int64_t batch, float *to)
{
    hd_transpose(layer->in, batch, input_of(net, work, layer->input, ld_forward), ld_forward, to,
                 padded_floats(layer->in));
}

void hd_net_backward(const struct hd_net *net, const float *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     float *grad)
{
    int64_t ld = hd_linear_ld(batch), ld_forward = hd_linear_ld(forward_batch);
    float *transposed = delta_of(net, scratch, net->n_layers, ld);
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
        bool add = net->dueling && layer->input == net->layers[net->n_layers - 2].input &&
                   i == net->n_layers - 4;
        hd_linear_backward_data(layer->out, layer->in, ld, params + layer->weight, dy, ld, add,
                                input_of(net, work, layer->input, ld_forward), ld_forward,
                                delta_of(net, scratch, layer->input, ld), ld);
    }
}
