/* SPDX-License-Identifier: Apache-2.0 */
/* The base of a net, and what its parts call of each other. Threads as in kernels/net/net.h. */
#pragma once

#include "kernels/net/net.h"

/* Makes the layers that the fields describe. Returns HD_OK, HD_ERR_INPUT with the mistake in
 * *mistake_p (not logged), or HD_ERR_NOMEM (logged). hd_free releases the layers. */
int hd_layer_list_create(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p,
                         struct hd_layer_list *list_p);

/* Writes the layers of DI-engine's nets, without shapes, to layers[hd_short_form_count_max], and
 * fills in trunk and streams. hd_short_form_check finds mistakes in the short form, with a status
 * as above. */
int hd_short_form_check(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p);
int64_t hd_short_form_count_max(const struct hd_net_fields *fields);
void hd_short_form_write(const struct hd_net_fields *fields, struct hd_layer_list *list);

/* Returns whether a list is of DI-engine's dense form, with any widths. */
bool hd_short_form_is_dense(const struct hd_layer_list *list);

/* Returns whether a list is of DI-engine's convolutional form, with any number of channels. */
bool hd_short_form_is_conv(const struct hd_layer_list *list);

/* Returns the number of the first layer of a stream, and the end of the last one's. */
static inline int64_t hd_layer_list_find_stream(const struct hd_layer_list *list, int stream)
{
    int64_t first = list->trunk;
    for (int i = 0; i < stream; i++)
        first += list->streams[i].layers;
    return first;
}

/* The tables that a net keeps on each GPU, by the GPU's number; filled by
 * kernels/net/list/gpu/index_tables.c. */
enum { HD_NET_GPUS = 16 };
struct hd_net_on_gpu;
struct hd_net_gpus {
    _Atomic(struct hd_net_on_gpu *) on[HD_NET_GPUS];
    void (*release)(struct hd_net_on_gpu *on); /* NULL until there are tables */
};

/* The first member of struct list_net (kernels/net/list/list_internal.h). */
struct hd_net {
    struct hd_layer_list list;
    int64_t obs, actions, outputs, elements, params_bytes, state;
    int64_t row_major_elements; /* sum of the tensors' counts so far */
    bool obs_u8, bf16, batch_norm, short_form;
    enum hd_heads heads;
    enum hd_init init;
    int n_tensors;
    struct hd_tensor *tensors;
    int levels, n_norms;
    struct hd_net_norm *norms;
    enum hd_precision gpu_precision;
    struct hd_net_gpus *gpus;
};

/* Fills a base, lists tensors and norms, and takes the list over, also when
 * it fails. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_net_fill_base(struct hd_net *net, const struct hd_net_fields *fields,
                     const struct hd_layer_list *list);

/* Releases what a base holds. */
void hd_net_release_base(struct hd_net *net);

/* Returns the tensor of layer i: 0 its weight, 1 its bias. */
static inline const struct hd_tensor *hd_net_get_layer_tensor(const struct hd_net *net, int64_t i,
                                                              int which)
{
    return &net->tensors[net->list.layers[i].tensor + which];
}

/* Returns whether a stream ends in one value, besides the stream of the actions. */
static inline bool hd_net_has_value(const struct hd_net *net)
{
    return net->heads != HD_HEADS_Q;
}

/* Returns the rows of a pass, those of next_obs included. */
static inline int64_t hd_net_count_pass_rows(const struct hd_net_pass *pass)
{
    return pass->next_obs ? 2 * pass->rows : pass->rows;
}

/* -- Passes on CPUs, and the layout of the flat array (kernels/net/list/) -----------------------
 */

/* Makes a net of a list, which it takes over, also when it fails. Returns a status of
 * hd_net_create. */
int hd_list_create(const struct hd_net_fields *fields, const struct hd_layer_list *list,
                   struct hd_net **net_p);

/* These do what the functions of kernels/net/net.h do, and return the status of hd_net_create. */
int hd_list_forward(const struct hd_net *base, const struct hd_net_pass *pass, float *q);
int hd_list_backward(const struct hd_net *base, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad);
int hd_list_backward_obs(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs);
int hd_list_training_forward(const struct hd_net *base, const struct hd_training_pass *pass,
                             int stage, const double *total_sums, double *sums);
int hd_list_training_backward(const struct hd_net *base, const struct hd_training_pass *pass,
                              int stage, const double *total_sums, double *sums);
