/* SPDX-License-Identifier: Apache-2.0 */
/* The base of all kinds of nets, and the functions in which kinds differ. Threads as in
 * kernels/net/net.h. */
#ifndef HD_KERNELS_NET_NET_INTERNAL_H
#define HD_KERNELS_NET_NET_INTERNAL_H

#include "kernels/net/net.h"

/* The observations of a forward pass: rows of `first`, then of `second`. */
struct hd_net_rows {
    const void *first, *second;
    int64_t n_first, n_second;
    bool floats; /* observations are floats, whatever the net's type of observations */
    const struct hd_obs_norm *norm;
    const float *running; /* in nets with batch norm; may be NULL */
};

/* The functions that each kind implements. kernels/net/net.h says what they do and which status
 * they return. NULL: nothing is to be done. */
struct hd_net_ops {
    void (*destroy)(struct hd_net *net);
    int (*export_tensor)(const struct hd_net *net, const float *params, int i, float *row_major);
    int (*import_tensor)(const struct hd_net *net, const float *row_major, int i, float *params);
    void (*refresh)(const struct hd_net *net, void *params, int64_t lo, int64_t hi);
    int (*prepare)(const struct hd_net *net, int64_t batch, int64_t backward_batch);
    int64_t (*forward_bytes)(const struct hd_net *net, int64_t batch);
    int (*forward)(const struct hd_net *net, const void *params, const struct hd_net_rows *rows,
                   void *work, float *q);
    int (*stages)(const struct hd_net *net);
    void (*stage_range)(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p);
    int64_t (*backward_bytes)(const struct hd_net *net, int64_t batch);
    int (*backward)(const struct hd_net *net, const void *params, int64_t batch,
                    int64_t forward_batch, const void *work, const float *dq, void *scratch,
                    int stage, float *grad);
    /* Only in nets with batch norm. */
    int64_t (*training_bytes)(const struct hd_net *net, int64_t batch);
    int64_t (*training_sums)(const struct hd_net *net, int stage);
    void (*training_forward)(const struct hd_net *net, const struct hd_training_pass *pass,
                             int stage, const double *total_sums, double *sums);
    void (*training_backward)(const struct hd_net *net, const struct hd_training_pass *pass,
                              int stage, const double *total_sums, double *sums);
    bool (*update_running)(const struct hd_net *net, const struct hd_training_pass *pass,
                           float *running);
};

/* The tables that a net keeps on each GPU, by the GPU's number; filled by
 * kernels/net/gpu/net_cuda.c. */
enum { HD_NET_GPUS = 16 };
struct hd_net_on_gpu;
struct hd_net_gpus {
    _Atomic(struct hd_net_on_gpu *) on[HD_NET_GPUS];
    void (*release)(struct hd_net_on_gpu *on); /* NULL until there are tables */
};

/* The first member of every kind's struct. */
struct hd_net {
    const struct hd_net_ops *ops;
    int64_t obs_shape[3]; /* zeros in dense nets */
    int64_t obs, actions, outputs, elements, params_bytes;
    int64_t row_major_elements; /* sum of the tensors' counts so far */
    bool obs_u8, bf16, batch_norm;
    enum hd_heads heads;
    enum hd_init init;
    int n_tensors;
    struct hd_tensor *tensors;
    int levels, n_norms;
    struct hd_net_norm *norms;
    enum hd_precision on_gpu;
    struct hd_net_gpus *gpus;
};

/* Returns a base filled from the fields alone. */
struct hd_net hd_net_make_base(const struct hd_net_fields *fields);

/* Returns whether a stream ends in one value, besides the stream of the actions. */
static inline bool hd_net_has_value(const struct hd_net *net)
{
    return net->heads != HD_HEADS_Q;
}

/* Make a net of either kind. hd_net_create does what both share, before and after. Return a status
 * of hd_net_create. */
int hd_dense_net_create(const struct hd_net_fields *fields, struct hd_net **net_p);
int hd_conv_net_create(const struct hd_net_fields *fields, struct hd_net **net_p);

/* Returns the stride of a convolutional net's convolution i. */
int64_t hd_conv_net_get_stride(int i);

/* Does hd_net_find_mistake for a convolutional net. */
const char *hd_conv_net_find_mistake(const struct hd_net_fields *fields,
                                     char message[HD_NET_MESSAGE]);

/* Appends a tensor of shape[dims]. The list has capacity for every net that can be made. */
void hd_net_add_tensor(struct hd_net *net, const char *layer, const char *kind, int dims,
                       const int64_t *shape, int64_t fan_in);

/* Appends a batch norm of `features` with its weight and bias, and returns its number. */
int hd_net_add_norm(struct hd_net *net, const char *module, int64_t features);

#endif
