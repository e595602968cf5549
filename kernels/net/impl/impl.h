/* SPDX-License-Identifier: Apache-2.0 */
/* Implementations of layers on CPUs that choose how activations and weights lie in memory when a
 * net is made: the layer's operations (kernels/net/layers/layer.h) know rows or columns of floats,
 * and weights as PyTorch has them. Thread safe on different memory once made. */
#pragma once

#include "kernels/net/frames.h"
#include "kernels/net/layers/form.h"

struct hd_impl_type;

/* The wishes that an implementation is made for. */
struct hd_impl_fields {
    const struct hd_layer *layer,
        *joined;       /* joined: a second layer that reads the same input, whose
                          outputs lie behind those of the first; NULL: none */
    struct hd_form in; /* of the input as it is */
    bool obs;  /* the layer alone reads the observation, which is converted as it asks for */
    bool relu; /* the output is rectified */
    bool bf16; /* products of bf16 with sums in f32 */
};

/* The base of all implementations. */
struct hd_impl {
    const struct hd_impl_type *type;
    const struct hd_layer *layer, *joined;
    struct hd_form in, out;  /* that it reads and writes */
    struct hd_frames frames; /* what makes its input of the observation; zeros if it was not made
                                for that */
    bool relu;
    int64_t weights, biases; /* floats in the flat array */
    int64_t shadow;          /* bf16 elements */
    int64_t blocks;          /* of inputs, whose weights follow one another; 1: not cut */
};

/* A pass through a layer. It begins, goes through rows part by part, and ends. No two pointers
 * overlap; weights and their gradients are those of the flat array. */
struct hd_impl_run {
    const struct hd_impl *impl;
    enum hd_conv_pass pass;
    int64_t max_rows; /* of a part, at most */
    const float *weights, *bias;
    const hd_bf16 *shadow;
    float *dweights, *dbias; /* written in HD_CONV_WEIGHTS: sums over all parts */
    int64_t first, last;     /* in backward passes: blocks of inputs [first, last) */
    void *scratch;           /* 64-byte aligned */
    struct hd_conv_prefetch prefetch;
    bool begun; /* private */
};

/* Functions that return a status return HD_OK or an error of kernels/conv/conv.h (logged). */
struct hd_impl_type {
    const char *name;
    void (*destroy)(struct hd_impl *impl);

    /* Copies tensor t (0: weight, 1: bias) of the layer, or of the joined one, between
     * row_major[tensor's count] and the weights or biases in the flat array. Returns a status. */
    int (*copy)(const struct hd_impl *impl, bool joined, int t, float *row_major, float *flat,
                bool import);
    /* Refreshes the shadow for weights [lo, hi). NULL: there is none. */
    void (*refresh)(const struct hd_impl *impl, const float *weights, int64_t lo, int64_t hi,
                    hd_bf16 *shadow);
    /* Prepares parts of `rows` rows. NULL: nothing is to be done. Returns a status. */
    int (*prepare)(const struct hd_impl *impl, enum hd_conv_pass pass, int64_t rows);
    /* Returns the bytes of scratch of a pass. NULL: none. */
    int64_t (*get_scratch_bytes)(const struct hd_impl *impl, enum hd_conv_pass pass,
                                 int64_t max_rows);
    /* Returns what computes a pass of so many rows, for messages. NULL: the type's name says it. */
    const char *(*get_name)(const struct hd_impl *impl, enum hd_conv_pass pass, int64_t rows);

    /* NULL: nothing is to be done. Return a status. */
    int (*begin)(struct hd_impl_run *run);
    int (*end)(struct hd_impl_run *run);

    /* Compute y of x; add to dweights and dbias; compute dx, which is 0 where x is not positive if
     * `mask`. Return a status. */
    int (*forward)(struct hd_impl_run *run, int64_t rows, const void *x, void *y);
    int (*backward_weights)(struct hd_impl_run *run, int64_t rows, const void *x, const void *dy);
    int (*backward_data)(struct hd_impl_run *run, int64_t rows, const void *x, bool mask,
                         const void *dy, void *dx);
};

/* These make an implementation, which the caller releases by hd_impl_destroy: of conv, by
 * kernels/conv/; of dense, by kernels/dense/packed_linear.h, which yields rows of floats; and of
 * dense with few outputs, by plain loops on floats, from rows to columns. Each returns HD_OK,
 * HD_ERR_NOMEM or HD_ERR_UNSUPPORTED (logged). */
int hd_impl_create_conv(const struct hd_impl_fields *fields, struct hd_impl **impl_p);
int hd_impl_create_packed(const struct hd_impl_fields *fields, struct hd_impl **impl_p);
int hd_impl_create_output(const struct hd_impl_fields *fields, struct hd_impl **impl_p);

/* Begin and end a pass. Return a status. */
int hd_impl_begin(struct hd_impl_run *run);
int hd_impl_end(struct hd_impl_run *run);

/* Releases an implementation; accepts NULL. */
void hd_impl_destroy(struct hd_impl *impl);
