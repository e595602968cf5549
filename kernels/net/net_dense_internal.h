/* SPDX-License-Identifier: Apache-2.0 */
/* Dense nets, shared by the files that create them and that run them. Activations are feature-major
 * (kernels/dense/linear.h). Threads as in kernels/net/net.h. */
#ifndef HD_KERNELS_NET_NET_DENSE_INTERNAL_H
#define HD_KERNELS_NET_NET_DENSE_INTERNAL_H

#include "kernels/dense/linear.h"
#include "kernels/net/net_internal.h"

enum { FROM_OBS = -1, NO_NORM = -1 };

struct layer {
    int64_t in, out;
    bool hidden;                    /* a ReLU follows */
    int input;                      /* number of the layer that it reads, or FROM_OBS */
    bool adds;                      /* a later layer reads the same */
    int level;                      /* 0 reads the observations, 1 a layer of level 0, … */
    int64_t weight, bias;           /* offsets in the flat array */
    int norm;                       /* number of the batch norm before the ReLU, or NO_NORM */
    int64_t norm_weight, norm_bias; /* its offsets in the flat array */
    int64_t feature;                /* number of its first feature among those of all norms */
};

struct dense_net {
    struct hd_net base;
    int64_t widest;
    int64_t features;         /* features of all batch norms */
    int of_actions, of_value; /* numbers of the output layers; -1: none */
    int64_t log_std;          /* offset of the numbers that q takes from the parameters; -1: none */
    int n_layers;
    struct layer
        *layers; /* in order of the forward pass, which is also the order of the parameters */
};

static inline const struct dense_net *as_dense(const struct hd_net *net)
{
    return (const struct dense_net *)net;
}

static inline int64_t pad_floats(int64_t floats)
{
    return (floats + HD_LANES - 1) / HD_LANES * HD_LANES;
}

/* -- Passes: functions of struct hd_net_ops, with the statuses of kernels/net/net.h ------------ */

/* Forward passes, with a status as in kernels/net/net.h. The work memory holds the observations,
 * then every layer's output after its ReLU. */
int64_t hd_dense_get_forward_bytes(const struct hd_net *base, int64_t batch);
int hd_dense_forward(const struct hd_net *base, const void *params, const struct hd_net_rows *rows,
                     void *work, float *q);

/* Backward passes, with a status as in kernels/net/net.h. The scratch holds dL/doutput of every
 * layer, then one transposed input. */
int64_t hd_dense_get_backward_bytes(const struct hd_net *base, int64_t batch);
int hd_dense_backward(const struct hd_net *base, const void *params, int64_t batch,
                      int64_t forward_batch, const void *work, const float *dq, void *scratch,
                      int stage, float *grad);
int hd_dense_backward_obs(const struct hd_net *base, const void *params, int64_t batch,
                          int64_t forward_batch, const void *work, const float *dq, void *scratch,
                          float *dobs);

/* Training passes of nets with batch norm (net_dense_norm.c). */
int64_t hd_dense_get_training_bytes(const struct hd_net *base, int64_t batch);
int64_t hd_dense_count_training_sums(const struct hd_net *base, int stage);
void hd_dense_training_forward(const struct hd_net *base, const struct hd_training_pass *pass,
                               int stage, const double *total_sums, double *sums);
void hd_dense_training_backward(const struct hd_net *base, const struct hd_training_pass *pass,
                                int stage, const double *total_sums, double *sums);
bool hd_dense_update_running(const struct hd_net *base, const struct hd_training_pass *pass,
                             float *running);

/* -- Steps of passes; ld is the leading dimension of the memory in question -------------------- */

/* Returns a layer's output in work memory, or the observations for FROM_OBS. */
float *hd_dense_get_output(const struct dense_net *net, const void *work, int layer, int64_t ld);

/* Copies the observations to work memory. */
void hd_dense_take_obs(const struct dense_net *net, const struct hd_net_rows *rows, void *work,
                       int64_t ld);

/* Computes a layer's output, with its ReLU if `relu`, and writes it to y[out][ld]. */
void hd_dense_forward_layer(const struct dense_net *net, const float *params, const void *work,
                            int layer, int64_t ld, bool relu, float *y);

/* Computes q from the output layers. */
void hd_dense_combine_heads(const struct dense_net *net, const float *params, const void *work,
                            int64_t batch, int64_t ld, float *q);

/* Return dL/doutput of a layer in scratch, and compute it from dq for the output layers. */
float *hd_dense_get_delta(const struct dense_net *net, void *scratch, int layer, int64_t ld);
void hd_dense_split_heads(const struct dense_net *net, const float *dq, int64_t batch, int64_t ld,
                          void *scratch);

/* Computes the gradients of a layer's weight and bias from its dL/doutput. */
void hd_dense_backward_layer_weights(const struct dense_net *net, int layer, const void *work,
                                     int64_t ld_forward, int64_t batch, int64_t ld, void *scratch,
                                     float *grad);

/* Adds the layer's contribution to dL/doutput of the layer that it reads, before that layer's ReLU.
 * Layers are processed from the last to the first. */
void hd_dense_backward_layer_data(const struct dense_net *net, const float *params, int layer,
                                  const void *work, int64_t ld_forward, int64_t ld, void *scratch);

#endif
