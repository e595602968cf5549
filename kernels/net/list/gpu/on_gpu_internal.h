/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of GPUs: every op has an implementation, with places among shadow weights and gradients
 * in GPU order. Values are rows, padded with zeros to whole vectors: of images [y][x][channel],
 * each pixel padded. They are in the precision, but for those that output layers read, which are
 * floats; derivatives by them are in the precision. Thread safe on different memory once made. */
#pragma once

#include "kernels/net/gpu/first_conv.h"
#include "kernels/net/gpu/gemm.h"
#include "kernels/net/gpu/layers.h"
#include "kernels/net/list/gpu/index_tables_internal.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/status.h"

struct gpu_impl;
struct gpu_pass;

/* The operations of an implementation. Functions that return a status return HD_OK or an error of a
 * launch or a product (logged). NULL: nothing is to be done. */
struct gpu_impl_type {
    struct hd_impl_type base;
    bool has_bias; /* of which sums of derivatives by the output are the gradient */
    /* Takes places for its tensors, and says where they lie. */
    void (*place)(const struct list_net *net, struct gpu_impl *impl, struct gpu_places *used);
    void (*describe)(const struct list_net *net, const struct op *op,
                     struct hd_gpu_matrix *matrices);
    /* Return the bytes that a forward pass keeps for the backward pass, and those of scratch. */
    int64_t (*count_kept)(const struct gpu_impl *impl, int64_t rows);
    int64_t (*count_scratch)(const struct gpu_impl *impl, int64_t rows);

    /* Returns whether an op that reads the observation takes it as it comes, in a pass of so many
     * rows. NULL: it does not. */
    bool (*takes_raw_obs)(const struct gpu_impl *impl, int64_t rows);

    int (*forward)(const struct gpu_pass *pass, const struct op *op);
    int (*backward_weights)(const struct gpu_pass *pass, const struct op *op);
    int (*backward_data)(const struct gpu_pass *pass, const struct op *op);
};

/* A stream whose last layer reads neurons [from, from + width) of a row of a value. */
struct gpu_stream {
    const struct hd_layer *layer;
    int value;
    int64_t from, width, ld_weight, weight, gradient;
    int32_t first, end; /* its outputs */
};

struct gpu_impl {
    struct hd_impl base;
    struct hd_gpu_window window; /* of convolutions */
    bool relu_in;                /* a convolution takes its input rectified */
    /* A product of x[rows * pixels][in] and weight[out][in], padded. */
    int64_t in, out, pixels;
    /* Offsets among shadow weights, of weights' gradients, and of sums of columns; wide: weights
     * and biases are floats whatever the precision. */
    int64_t weight, bias, gradient, sums, more_sums;
    bool wide_weight, wide_bias;
    bool shares_delta; /* of a residual: derivatives by `in` are those by the sum, in one memory */
    int tensors;       /* up to its own */
    int64_t first_sum; /* of its own and those behind it */
    /* The output layers. */
    struct gpu_stream streams[HD_NET_STREAMS];
    const struct hd_layer *log_std;
};

extern const struct gpu_impl_type hd_gpu_columns, hd_gpu_direct, hd_gpu_dense, hd_gpu_output_layers,
    hd_gpu_layers, hd_gpu_residuals, hd_gpu_conversions;

static inline const struct gpu_impl *as_gpu(const struct op *op)
{
    return (const struct gpu_impl *)op->impl;
}

static inline const struct gpu_impl_type *get_gpu_type(const struct op *op)
{
    return (const struct gpu_impl_type *)op->impl->type;
}

static inline int64_t hd_gpu_fill_up(int64_t n)
{
    return (n + HD_VECTOR - 1) / HD_VECTOR * HD_VECTOR;
}

/* -- Making the walk (rewrite.c, memory.c) ----------------------------------------------------- */

/* Gives the ops of net->on_gpu their places. */
void hd_gpu_take_places(struct list_net *net);

/* Takes n elements, which begin at a multiple of a unit. */
int64_t hd_gpu_take(int64_t *used, int64_t n);

/* Returns rows of a form as rows of an image, which others than images are with a single pixel. */
struct hd_gpu_image hd_gpu_make_image(const struct hd_form *form);

/* Return where a tensor lies, but for its start: `rows` rows of weights of `inputs` numbers each,
 * which belong to the elements of a row of a value in their order; or as it is. */
struct hd_gpu_matrix hd_gpu_make_matrix(const struct hd_form *form, int64_t rows, int64_t inputs);
struct hd_gpu_matrix hd_gpu_make_rows(int64_t rows, int64_t columns);

/* -- Passes (memory.c, steps.c) ---------------------------------------------------------------- */

/* A pass in either direction. `work` is the memory of a forward pass of forward_rows rows, scratch
 * that of a backward pass. If `dry_run`, nothing is computed, but every product is prepared. */
struct gpu_pass {
    const struct list_net *net;
    const void *params;
    int64_t rows, forward_rows;
    void *work, *scratch, *stream;
    const struct hd_gpu_obs *obs; /* forward: as they come */
    float *q;
    const float *dq;
    float *gradient; /* in GPU order */
    void *obs_delta; /* derivatives by the observation, rows of its form; NULL: not wanted */
    bool dry_run;
};

/* Launches a kernel in a pass and returns from the caller on an error. */
#define HD_GPU_RUN(pass, launch)                                                                   \
    do {                                                                                           \
        if (!(pass)->dry_run)                                                                      \
            HD_TRY(launch);                                                                        \
    } while (0)

/* Return the bytes of a pass's memory. */
int64_t hd_gpu_count_work_bytes(const struct list_net *net, int64_t rows);
int64_t hd_gpu_count_scratch_bytes(const struct list_net *net, int64_t rows);

/* Return where a pass finds a value, of rows from `row` on; the derivatives by it; what an op
 * keeps; the scratch of one op; the library's workspace; and a shadow weight. */
void *hd_gpu_get_value(const struct gpu_pass *pass, int value, int64_t row);
void *hd_gpu_get_delta(const struct gpu_pass *pass, int value, int64_t row);
void *hd_gpu_get_kept(const struct gpu_pass *pass, const struct op *op);
void *hd_gpu_get_scratch(const struct gpu_pass *pass);
void *hd_gpu_get_workspace(const struct gpu_pass *pass);
const void *hd_gpu_get_shadow(const struct gpu_pass *pass, int64_t at);

/* Returns whether derivatives by a value are computed. */
static inline bool hd_gpu_wants_delta(const struct gpu_pass *pass, int value)
{
    return !pass->net->on_gpu.values[value].is_obs || pass->obs_delta;
}

/* Returns sums of columns from `at` on. */
struct hd_gpu_sums hd_gpu_make_sums(const struct gpu_pass *pass, int64_t at);

/* Says where an op leaves derivatives by a value that it reads, in addition to others if `add`; of
 * rows from `row` on, if they come in parts. */
struct hd_gpu_delta hd_gpu_make_delta(const struct gpu_pass *pass, const struct op *op, int value,
                                      bool add, int64_t row);

/* Leaves derivatives by a value as they are, which may lie there already. Returns HD_OK or an error
 * of a launch (logged). */
int hd_gpu_leave(const struct gpu_pass *pass, int value, const struct hd_gpu_delta *delta,
                 const void *from);

/* Computes or prepares C = A B as kernels/net/gpu/gemm.h says, with its errors. */
int hd_gpu_multiply(const struct gpu_pass *pass, const struct hd_gemm *gemm, const void *a,
                    const void *b, const void *bias, void *c);

/* Returns whether a pass of so many rows keeps observations in the form of their value; and the
 * observations: as they come, or as the pass keeps them. */
bool hd_gpu_keeps_obs(const struct list_net *net, int64_t rows);
struct hd_gpu_obs hd_gpu_get_obs(const struct gpu_pass *pass);

static inline bool hd_gpu_is_bf16(const struct list_net *net)
{
    return net->base.gpu_precision == HD_BF16;
}

static inline bool hd_gpu_is_tf32(const struct list_net *net)
{
    return net->base.gpu_precision == HD_TF32;
}

static inline int64_t hd_gpu_get_element_bytes(const struct list_net *net)
{
    return hd_gpu_is_bf16(net) ? 2 : 4;
}

static inline const struct hd_form *hd_gpu_get_form(const struct gpu_pass *pass, int value)
{
    return &pass->net->on_gpu.values[value].form;
}

/* -- Products (product.c) ---------------------------------------------------------------------- */

/* Sizes a convolution, of the observation or an image. */
void hd_gpu_size_conv(const struct hd_form *in, bool obs, const struct hd_form *out,
                      struct gpu_impl *impl);

/* Do what `place` and `describe` say for all products. */
void hd_gpu_place_product(const struct list_net *net, struct gpu_impl *impl,
                          struct gpu_places *used);
void hd_gpu_describe_product(const struct list_net *net, const struct op *op,
                             struct hd_gpu_matrix *matrices);
