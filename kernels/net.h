/* SPDX-License-Identifier: Apache-2.0 */
/* Nets: lists of dense layers built from DI-engine's fields, with its parameter names, shapes and
 * order (spec 2.1), over one flat array of parameters. Compute calls allocate nothing: the caller
 * gives work memory. A net is read-only once made, hence thread safe. */
#ifndef HD_KERNELS_NET_H
#define HD_KERNELS_NET_H

#include "runtime/base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_TENSOR_NAME = 64 };

/* One parameter tensor: elements [offset, offset + count) of the flat array, row-major. */
struct hd_tensor {
    char name[HD_TENSOR_NAME];
    int64_t shape[2];
    int dims;
    int64_t offset, count;
    int64_t fan_in; /* of its layer */
};

struct hd_net_fields {
    int64_t obs; /* floats of an observation */
    int64_t actions;
    const int64_t *hidden; /* encoder_hidden_size_list */
    int64_t n_hidden;
    bool dueling; /* A and V streams (q = A - mean A + V); else one head */
};

struct hd_net;

/* Released by hd_net_destroy (accepts NULL). Errors: HD_ERR_NOMEM. */
int hd_net_create(const struct hd_net_fields *fields, struct hd_net **net_p);
void hd_net_destroy(struct hd_net *net);

int64_t hd_net_elements(const struct hd_net *net); /* floats of all parameters */
int64_t hd_net_obs(const struct hd_net *net);
int64_t hd_net_actions(const struct hd_net *net);
int hd_net_tensors(const struct hd_net *net);
const struct hd_tensor *hd_net_tensor(const struct hd_net *net, int i);

/* PyTorch's default: weights and biases uniform in +-1 / sqrt(fan_in); element j is item j of rng.
 */
void hd_net_init(const struct hd_net *net, const struct hd_rng *rng, float *params);

/* Bytes of work memory, a multiple of 64, for a forward pass of `batch` observations; it holds the
 * activations afterwards. */
int64_t hd_net_forward_bytes(const struct hd_net *net, int64_t batch);

/* q[batch][actions] of obs[batch][obs]. A row's result depends on that row alone, by bits. `work`
 * is 64-byte aligned. */
void hd_net_forward(const struct hd_net *net, const float *params, const float *obs, int64_t batch,
                    void *work, float *q);

/* Bytes of scratch, a multiple of 64, for a backward pass of `batch` observations. */
int64_t hd_net_backward_bytes(const struct hd_net *net, int64_t batch);

/* grad, laid out like the parameters, = sum over rows b < batch of dq[b][actions] times the
 * derivative of row b's output. `work` is that of a forward pass of `forward_batch` rows, of which
 * the first `batch` are meant. */
void hd_net_backward(const struct hd_net *net, const float *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     float *grad);

#endif
