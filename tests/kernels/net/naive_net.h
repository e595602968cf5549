/* SPDX-License-Identifier: Apache-2.0 */
/* DI-engine's nets computed literally from their definitions, one row at a time, in double:
 * forward, and the gradient of sum dq q, from parameters in PyTorch's layout. One thread at a
 * time. */
#pragma once

#include "kernels/common/bf16.h"
#include "kernels/net/net.h"
#include "tests/kernels/common/check_close.h"

#include <stdbool.h>
#include <string.h>

enum { NAIVE_LAYERS = 8 };

/* A layer is a convolution; a dense layer is a 1 x 1 convolution of 1 x 1 pixels. */
struct naive_layer {
    int64_t in, height, width, out, kernel, stride, out_height, out_width;
    bool relu;
    int input; /* layer, or -1: the observation */
};

struct naive_net {
    int layers;
    enum hd_heads heads;
    int policy, value; /* output layers of the actions and of the value */
    int64_t actions, obs;
    struct naive_layer layer[NAIVE_LAYERS];
    double *weight[NAIVE_LAYERS], *bias[NAIVE_LAYERS];
    double *out[NAIVE_LAYERS], *gradient[NAIVE_LAYERS]; /* for the present row */
    double *grad[2 * NAIVE_LAYERS];                     /* by tensors, summed over rows */
    double *input;
    bool bf16; /* rounds what a GPU rounds in bf16: see naive_round */
};

static inline double *naive_alloc(int64_t n)
{
    return hd_alloc(n, sizeof(double));
}

static inline int naive_add(struct naive_net *naive, struct naive_layer layer)
{
    layer.out_height = (layer.height - layer.kernel) / layer.stride + 1;
    layer.out_width = (layer.width - layer.kernel) / layer.stride + 1;
    naive->layer[naive->layers] = layer;
    return naive->layers++;
}

static inline int naive_dense(struct naive_net *naive, int64_t in, int64_t out, bool relu,
                              int input)
{
    return naive_add(naive, (struct naive_layer){in, 1, 1, out, 1, 1, 1, 1, relu, input});
}

static inline int naive_stream(struct naive_net *naive, int64_t width, int64_t out, int encoder)
{
    return naive_dense(naive, width, out, false, naive_dense(naive, width, width, true, encoder));
}

static inline void naive_heads(struct naive_net *naive, int64_t wide, int encoder)
{
    if (naive->heads == HD_HEADS_ACTOR_CRITIC)
        naive->value = naive_stream(naive, wide, 1, encoder);
    naive->policy = naive_stream(naive, wide, naive->actions, encoder);
    if (naive->heads == HD_HEADS_DUELING)
        naive->value = naive_stream(naive, wide, 1, encoder);
}

/* Adds the layers of an FCEncoder, each with its ReLU. */
static inline void naive_dense_layers(struct naive_net *naive, const int64_t *hidden,
                                      int64_t n_hidden)
{
    int last = -1;
    for (int64_t i = 0; i < n_hidden; i++)
        last = naive_dense(naive, i > 0 ? hidden[i - 1] : naive->obs, hidden[i], true, last);
    naive_heads(naive, hidden[n_hidden - 1], last);
}

static inline void naive_layers(struct naive_net *naive, const int64_t *shape,
                                const int64_t *hidden, int64_t n_hidden)
{
    static const int64_t kernel[] = {8, 4, 3}, stride[] = {4, 2, 1};
    int64_t in = shape[0], height = shape[1], width = shape[2];
    int64_t wide = hidden[n_hidden - 1];
    for (int i = 0; i < 3; i++) {
        naive_add(naive, (struct naive_layer){in, height, width, hidden[i], kernel[i], stride[i], 0,
                                              0, true, i - 1});
        in = hidden[i];
        height = naive->layer[i].out_height;
        width = naive->layer[i].out_width;
    }
    int mid = naive_dense(naive, in * height * width, wide, false, 2);
    naive_heads(naive, wide, mid);
}

static inline int64_t naive_outputs(const struct naive_layer *l)
{
    return l->out * l->out_height * l->out_width;
}

/* Makes the net; shape is NULL for a dense net. */
static inline void naive_create(struct naive_net *naive, const struct hd_net *net,
                                const int64_t *shape, const int64_t *hidden, int64_t n_hidden,
                                enum hd_heads heads, const float *params)
{
    *naive = (struct naive_net){
        .heads = heads, .actions = hd_net_count_actions(net), .obs = hd_net_count_obs(net)};
    naive->input = naive_alloc(naive->obs);
    if (shape)
        naive_layers(naive, shape, hidden, n_hidden);
    else
        naive_dense_layers(naive, hidden, n_hidden);
    ck_assert_int_eq(hd_net_count_tensors(net), 2 * naive->layers);
    for (int t = 0; t < 2 * naive->layers; t++) {
        int64_t n = hd_net_get_tensor(net, t)->count;
        float *row_major = hd_alloc(n, sizeof *row_major);
        double *wide = naive_alloc(n);
        ck_assert_int_eq(hd_net_export_tensor(net, params, t, row_major), 0);
        for (int64_t i = 0; i < n; i++)
            wide[i] = row_major[i];
        hd_free(row_major);
        *(t % 2 ? &naive->bias[t / 2] : &naive->weight[t / 2]) = wide;
        naive->grad[t] = naive_alloc(n);
    }
    for (int i = 0; i < naive->layers; i++) {
        naive->out[i] = naive_alloc(naive_outputs(&naive->layer[i]));
        naive->gradient[i] = naive_alloc(naive_outputs(&naive->layer[i]));
    }
}

static inline void naive_destroy(struct naive_net *naive)
{
    for (int i = 0; i < naive->layers; i++) {
        hd_free(naive->weight[i]);
        hd_free(naive->bias[i]);
        hd_free(naive->out[i]);
        hd_free(naive->gradient[i]);
        hd_free(naive->grad[2 * i]);
        hd_free(naive->grad[2 * i + 1]);
    }
    hd_free(naive->input);
}

static inline double naive_rounded(double x)
{
    return hd_bf16_to_float(hd_bf16_from_float((float)x));
}

static inline void naive_round_all(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = naive_rounded(x[i]);
}

/* Rounds to bf16, as GPUs do, parameters and, in passes, the observation, activations and their
 * gradients: all except biases, activations of the heads' hidden layers, and the output layers. */
static inline bool naive_is_output(const struct naive_net *naive, int k)
{
    return k == naive->policy || (naive->heads != HD_HEADS_Q && k == naive->value);
}

static inline bool naive_is_hidden(const struct naive_net *naive, int k)
{
    return k + 1 < naive->layers && naive_is_output(naive, k + 1);
}

static inline void naive_round(struct naive_net *naive)
{
    naive->bf16 = true;
    for (int k = 0; k < naive->layers; k++) {
        const struct naive_layer *l = &naive->layer[k];
        if (!naive_is_output(naive, k))
            naive_round_all(naive->weight[k], l->out * l->in * l->kernel * l->kernel);
        if (!naive_is_output(naive, k) && !naive_is_hidden(naive, k))
            naive_round_all(naive->bias[k], l->out);
    }
}

/* Evaluates `body` for every product of a layer: output o, input i, weight w (flat indices). */
#define NAIVE_PRODUCTS(l, body)                                                                    \
    for (int64_t oc = 0; oc < (l)->out; oc++)                                                      \
        for (int64_t y = 0; y < (l)->out_height; y++)                                              \
            for (int64_t x = 0; x < (l)->out_width; x++)                                           \
                for (int64_t ic = 0; ic < (l)->in; ic++)                                           \
                    for (int64_t ky = 0; ky < (l)->kernel; ky++)                                   \
                        for (int64_t kx = 0; kx < (l)->kernel; kx++) {                             \
                            int64_t o = (oc * (l)->out_height + y) * (l)->out_width + x;           \
                            int64_t i = (ic * (l)->height + y * (l)->stride + ky) * (l)->width +   \
                                        x * (l)->stride + kx;                                      \
                            int64_t w =                                                            \
                                ((oc * (l)->in + ic) * (l)->kernel + ky) * (l)->kernel + kx;       \
                            body;                                                                  \
                        }

static inline const double *naive_input(const struct naive_net *naive, const struct naive_layer *l)
{
    return l->input < 0 ? naive->input : naive->out[l->input];
}

static inline void naive_forward(struct naive_net *naive, int k)
{
    const struct naive_layer *l = &naive->layer[k];
    const double *in = naive_input(naive, l), *weight = naive->weight[k];
    double *out = naive->out[k];
    int64_t plane = l->out_height * l->out_width;
    for (int64_t j = 0; j < naive_outputs(l); j++)
        out[j] = naive->bias[k][j / plane];
    NAIVE_PRODUCTS(l, out[o] += weight[w] * in[i])
    for (int64_t j = 0; j < naive_outputs(l) && l->relu; j++)
        out[j] = out[j] > 0 ? out[j] : 0;
    if (naive->bf16 && !naive_is_output(naive, k) && !naive_is_hidden(naive, k))
        naive_round_all(out, naive_outputs(l));
}

static inline void naive_backward(struct naive_net *naive, int k)
{
    const struct naive_layer *l = &naive->layer[k];
    const double *in = naive_input(naive, l), *weight = naive->weight[k];
    double *dout = naive->gradient[k], *dweight = naive->grad[2 * k];
    double *din = l->input < 0 ? NULL : naive->gradient[l->input];
    int64_t plane = l->out_height * l->out_width;
    for (int64_t j = 0; j < naive_outputs(l); j++) {
        if (l->relu && naive->out[k][j] <= 0)
            dout[j] = 0;
        if (naive->bf16 && !naive_is_output(naive, k))
            dout[j] = naive_rounded(dout[j]);
        naive->grad[2 * k + 1][j / plane] += dout[j];
    }
    NAIVE_PRODUCTS(l, {
        dweight[w] += dout[o] * in[i];
        if (din)
            din[i] += dout[o] * weight[w];
    })
}

/* Computes q[outputs] of the row in naive->input, and adds the row's gradient. */
static inline void naive_pass(struct naive_net *naive, const float *dq, double *q)
{
    const int a = naive->policy, v = naive->value;
    const bool dueling = naive->heads == HD_HEADS_DUELING;
    double mean = 0, sum = 0;
    if (naive->bf16)
        naive_round_all(naive->input, naive->obs);
    for (int k = 0; k < naive->layers; k++) {
        naive_forward(naive, k);
        memset(naive->gradient[k], 0, (size_t)naive_outputs(&naive->layer[k]) * sizeof(double));
    }
    for (int64_t i = 0; i < naive->actions; i++) {
        mean += naive->out[a][i] / (double)naive->actions;
        sum += dq[i];
    }
    for (int64_t i = 0; i < naive->actions; i++) {
        q[i] = naive->out[a][i] + (dueling ? naive->out[v][0] - mean : 0);
        naive->gradient[a][i] = dq[i] - (dueling ? sum / (double)naive->actions : 0);
    }
    if (dueling)
        naive->gradient[v][0] = sum;
    if (naive->heads == HD_HEADS_ACTOR_CRITIC) {
        q[naive->actions] = naive->out[v][0];
        naive->gradient[v][0] = dq[naive->actions];
    }
    for (int k = naive->layers - 1; k >= 0; k--)
        naive_backward(naive, k);
}

/* Does the same for a row of bytes. */
static inline void naive_row(struct naive_net *naive, const uint8_t *obs, const float *dq,
                             double *q)
{
    for (int64_t i = 0; i < naive->obs; i++)
        naive->input[i] = obs[i] / 255.0;
    naive_pass(naive, dq, q);
}

/* Returns the norm of the difference of found[n] and wanted[n], relative to the norm of wanted. */
static inline double distance(const float *found, const double *wanted, int64_t n)
{
    double norm = 1e-60, off = 0;
    for (int64_t i = 0; i < n; i++) {
        norm += wanted[i] * wanted[i];
        off += (found[i] - wanted[i]) * (found[i] - wanted[i]);
    }
    return isnan(off) ? INFINITY : sqrt(off / norm);
}
