/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers of what a list computes between its layers on a GPU. Thread safe: they only launch on
 * `stream`, and return HD_OK or HD_ERR_DEVICE (logged). Pointers are to device memory. */
#ifndef HD_KERNELS_NET_LIST_GPU_STEPS_INTERNAL_H
#define HD_KERNELS_NET_LIST_GPU_STEPS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

/* Computes to[i] = a[i] + b[i], i < n; `to` may be `a` or `b`. a NULL: copies b. Returns a status
 * as above. */
int hd_list_add_cuda(int64_t n, const float *a, const float *b, float *to, void *stream);

/* The streams' outputs: a value of each action and, unless `value` is NULL, one of the
 * observation. */
struct hd_list_heads {
    float *actions, *value; /* [rows][n_actions], [rows], or the derivatives by them */
    int32_t n_actions, outputs;
    bool dueling;
};

/* Computes q[rows][outputs] of the streams' outputs, and the derivatives by these of dq. Return a
 * status as above. */
int hd_list_combine_heads_cuda(const struct hd_list_heads *heads, int64_t rows, float *q,
                               void *stream);
int hd_list_split_heads_cuda(const struct hd_list_heads *heads, int64_t rows, const float *dq,
                             void *stream);

#endif
