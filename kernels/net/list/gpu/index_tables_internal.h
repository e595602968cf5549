/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a net on a GPU. Behind the flat array lie shadow weights, matrices in the order
 * in which the GPU multiplies; a gradient in GPU order has an order like theirs. Tables lead from
 * the flat array to both. Thread safe. */
#pragma once

#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"

/* Says where a tensor lies: in a matrix [rows][columns] of the shadow weights, the rest of which is
 * padding, and whose gradient has rows of gradient_ld floats. Offsets count from the start of all
 * of either. Element j of the tensor is in row j / inputs, and of the remainder i in column
 * i % plane * channels + i / plane, which is i if `plane` is 1. */
struct hd_gpu_matrix {
    int64_t shadow, gradient, rows, columns, gradient_ld;
    int64_t inputs, plane, channels;
};

/* Says where the tensors of a net lie: in matrices[tensors]. */
void hd_gpu_describe(const struct list_net *net, struct hd_gpu_matrix *matrices);

/* The tables for a GPU. */
struct hd_net_on_gpu {
    struct hd_tiles tiles; /* without the addresses of a params instance */
    int *stage; /* [tensors + 1]: entry t is the stage that computes the gradient of tensor t - 1,
                   after those of all tensors behind it; entry 0 the last stage */
    void *memory;
};

/* Makes the tables for the current GPU and keeps them in the net, unless they are kept already.
 * Returns HD_OK, HD_ERR_NOMEM, HD_ERR_DEVICE or HD_ERR_UNSUPPORTED (logged). */
int hd_net_on_gpu_prepare(const struct hd_net *net);

/* Finds the tables for the current GPU (borrowed). Returns HD_OK, HD_ERR_DEVICE, HD_ERR_UNSUPPORTED
 * or HD_ERR_INPUT (not prepared), all logged. */
int hd_net_on_gpu_find(const struct hd_net *net, const struct hd_net_on_gpu **on_p);

/* Returns the shadow weights of a params instance. */
static inline void *hd_net_on_gpu_get_shadow(const struct hd_net *net, const void *params)
{
    return (char *)params + hd_align_up(net->elements * (int64_t)sizeof(float));
}
