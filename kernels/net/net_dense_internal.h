/* SPDX-License-Identifier: Apache-2.0 */
/* Dense nets: what the files that make them and run them have in common. Activations are
 * feature-major (kernels/dense/linear.h). */
#ifndef HD_KERNELS_NET_NET_DENSE_INTERNAL_H
#define HD_KERNELS_NET_NET_DENSE_INTERNAL_H

#include "kernels/dense/linear.h"
#include "kernels/net/net_internal.h"

enum { FROM_OBS = -1, NO_NORM = -1, HEAD_LAYERS = 4 };

struct layer {
    int64_t in, out;
    bool hidden;                    /* a ReLU follows */
    int input;                      /* layer that it reads, or FROM_OBS */
    int level;                      /* 0 reads the observations, 1 a layer of level 0, … */
    int64_t weight, bias;           /* offsets in the flat array */
    int norm;                       /* of the batch norm before the ReLU: its number, or NO_NORM; */
    int64_t norm_weight, norm_bias; /* offsets in the flat array; and where its features stand */
    int64_t feature;                /* among those of all */
};

struct dense_net {
    struct hd_net base;
    int64_t widest;
    int64_t features;         /* of all batch norms */
    int of_actions, of_value; /* the output layers; -1: none */
    int n_layers;
    struct layer *layers; /* in order of the forward pass, which is that of the parameters */
};

static inline const struct dense_net *as_dense(const struct hd_net *net)
{
    return (const struct dense_net *)net;
}

static inline int64_t pad_floats(int64_t floats)
{
    return (floats + HD_LANES - 1) / HD_LANES * HD_LANES;
}

/* -- Passes, as kernels/net/net_internal.h says ------------------------------------------------ */

/* Work memory: the observations, then every layer's output behind its ReLU. */
int64_t hd_dense_get_forward_bytes(const struct hd_net *base, int64_t batch);
int hd_dense_forward(const struct hd_net *base, const void *params, const struct hd_net_rows *rows,
                     void *work, float *q);

/* Scratch: dL/doutput of every layer, then one transposed input. */
int64_t hd_dense_get_backward_bytes(const struct hd_net *base, int64_t batch);
int hd_dense_backward(const struct hd_net *base, const void *params, int64_t batch,
                      int64_t forward_batch, const void *work, const float *dq, void *scratch,
                      int stage, float *grad);

/* Training passes of nets with batch norm (net_dense_norm.c). */
int64_t hd_dense_get_training_bytes(const struct hd_net *base, int64_t batch);
int64_t hd_dense_count_training_sums(const struct hd_net *base, int stage);
void hd_dense_training_forward(const struct hd_net *base, const struct hd_training_pass *pass,
                               int stage, const double *pooled, double *sums);
void hd_dense_training_backward(const struct hd_net *base, const struct hd_training_pass *pass,
                                int stage, const double *pooled, double *sums);
bool hd_dense_update_running(const struct hd_net *base, const struct hd_training_pass *pass,
                             float *running);

/* -- Steps of passes, for leading dimensions ld of the memory in question ---------------------- */

/* A layer's output in work memory; FROM_OBS: the observations. */
float *hd_dense_get_output(const struct dense_net *net, const void *work, int layer, int64_t ld);

/* The observations to their place. */
void hd_dense_take_obs(const struct dense_net *net, const struct hd_net_rows *rows, void *work,
                       int64_t ld);

/* A layer's output, with its ReLU if `relu`, to y[out][ld]. */
void hd_dense_forward_layer(const struct dense_net *net, const float *params, const void *work,
                            int layer, int64_t ld, bool relu, float *y);

/* q of the output layers. */
void hd_dense_combine_heads(const struct dense_net *net, const void *work, int64_t batch,
                            int64_t ld, float *q);

/* dL/doutput of a layer in scratch; of the output layers, from dq. */
float *hd_dense_get_delta(const struct dense_net *net, void *scratch, int layer, int64_t ld);
void hd_dense_split_heads(const struct dense_net *net, const float *dq, int64_t batch, int64_t ld,
                          void *scratch);

/* From dL/doutput of a layer the gradients of its weight and bias. */
void hd_dense_backward_layer_weights(const struct dense_net *net, int layer, const void *work,
                                     int64_t ld_forward, int64_t batch, int64_t ld, void *scratch,
                                     float *grad);

/* And what it adds to that of the layer that it reads, before that one's ReLU. Layers are taken
 * from the last to the first. */
void hd_dense_backward_layer_data(const struct dense_net *net, const float *params, int layer,
                                  const void *work, int64_t ld_forward, int64_t ld, void *scratch);

#endif
