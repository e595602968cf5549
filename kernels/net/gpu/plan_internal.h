/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a net on a GPU: consecutive layers, each a product of matrices, with the hidden
 * layers of the heads' streams side by side; and all offsets. Thread safe on different memory;
 * functions only enqueue on a stream, except those that create and destroy. */
#ifndef HD_KERNELS_NET_GPU_PLAN_INTERNAL_H
#define HD_KERNELS_NET_GPU_PLAN_INTERNAL_H

#include "kernels/net/gpu/first_conv.h"
#include "kernels/net/gpu/gemm.h"
#include "kernels/net/gpu/index_tables.h"
#include "kernels/net/gpu/launches_internal.h"

enum { HD_GPU_LAYERS = 24, HD_GPU_CONVS = 3 };

/* A layer with weight[out][in], whose sizes are padded to multiples of HD_VECTOR. */
struct hd_gpu_layer {
    int64_t in, out, pixels; /* pixels: of a sample's output, each with `out` channels */
    bool conv, relu, wide;   /* wide: the output is floats, whatever the type of activations */
    struct hd_gpu_window window;
    int64_t weight, bias;   /* offsets in elements of the shadow */
    int64_t gradient, sums; /* offsets of the weight's gradient among gradients, and of the bias's
                               among sums of columns */
};

struct hd_gpu_plan {
    const struct hd_net *net;
    bool bf16, tf32;
    bool direct;         /* the first convolution is computed without columns (first_conv.h) */
    int convs, n_layers; /* the last one is the streams' hidden layer */
    struct hd_gpu_layer layers[HD_GPU_LAYERS];
    struct hd_gpu_heads heads;
    struct hd_gpu_layer output; /* only its offsets are used */
    int64_t obs_ld;             /* elements of an observation's row */
    int64_t narrow, wide;       /* elements of the shadow in the activations' type, and in floats */
    int64_t gradients, sums;    /* floats of all weights' gradients; columns whose sums are kept */
};

/* Makes the plan. Returns HD_OK or HD_ERR_UNSUPPORTED (logged). */
int hd_gpu_plan_make(const struct hd_net *net, struct hd_gpu_plan *plan);

/* Finds where tensor t lies; in a gradient, sums of columns are counted from plan->gradients on. */
struct hd_gpu_matrix hd_gpu_find_matrix(const struct hd_gpu_plan *plan, int t);

/* Returns the end of the tensors of layer i; those of the output layers count as the last layer's.
 */
int hd_gpu_find_end(const struct hd_gpu_plan *plan, int i);

/* Returns the bytes of an activation. */
static inline int64_t hd_gpu_get_element_bytes(const struct hd_gpu_plan *plan)
{
    return plan->bf16 ? 2 : 4;
}

/* Returns the address of an element of the shadow in a params instance. */
void *hd_gpu_find_shadow(const struct hd_gpu_plan *plan, const void *params, int64_t at);

/* -- Memory of passes -------------------------------------------------------------------------- */

/* Returns how many of `rows` rows a convolution processes at a time, so that their columns stay in
 * the GPU's cache until they are multiplied. */
int64_t hd_gpu_count_part_rows(const struct hd_gpu_layer *layer, int64_t element, int64_t rows);

/* The memory of a forward pass, kept for the backward pass. `columns` holds the columns of one
 * part; if that is not all rows, the last part remains, and observations are kept as `input`. If
 * the plan is direct, they are kept as `obs`, and the first convolution has no columns. */
struct hd_gpu_work {
    struct hd_gpu_kept_obs obs;
    void *input; /* [rows][obs_ld]; NULL if columns hold all rows or the plan is direct */
    void *columns[HD_GPU_CONVS], *act[HD_GPU_LAYERS], *workspace;
};

struct hd_gpu_scratch {
    void *delta[HD_GPU_LAYERS]; /* gradients of the layers' outputs before their ReLU */
    float *dout;                /* [rows][heads.ld_out] */
    void *columns;
    float *sums;
    float *partials; /* of the gradient of the first convolution, if the plan is direct */
    void *workspace;
};

/* Assign addresses in `memory` (NULL: only count) and return the bytes. */
int64_t hd_gpu_lay_out_work(const struct hd_gpu_plan *plan, int64_t rows, void *memory,
                            struct hd_gpu_work *work);
int64_t hd_gpu_lay_out_scratch(const struct hd_gpu_plan *plan, int64_t rows, void *memory,
                               struct hd_gpu_scratch *scratch);

/* Returns the start of a sample's row of layer i's activations. */
static inline void *hd_gpu_find_row(const struct hd_gpu_plan *plan, int i, void *act, int64_t row)
{
    const struct hd_gpu_layer *layer = &plan->layers[i];
    return (char *)act + row * layer->pixels * layer->out * hd_gpu_get_element_bytes(plan);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* A forward or backward pass. If `dry_run`, nothing is computed, but every GEMM is prepared. */
struct hd_gpu_pass {
    const struct hd_gpu_plan *plan;
    const struct hd_net_on_gpu *on; /* used by backward passes */
    const void *params;
    bool dry_run;
    void *workspace, *stream;
};

/* Launches a kernel in a pass and returns from the caller on an error. */
#define HD_GPU_RUN(pass, launch)                                                                   \
    do {                                                                                           \
        if (!(pass)->dry_run)                                                                      \
            HD_TRY(launch);                                                                        \
    } while (0)

/* Computes or prepares C = A B as kernels/net/gpu/gemm.h says, with its errors. */
int hd_gpu_multiply(const struct hd_gpu_pass *pass, const struct hd_gemm *gemm, const void *a,
                    const void *b, const void *bias, void *c);

/* Returns the first convolution that has columns. */
static inline int hd_gpu_get_first_with_columns(const struct hd_gpu_plan *plan)
{
    return plan->direct ? 1 : 0;
}

/* Describes the first convolution of a direct plan. */
static inline struct hd_gpu_first_conv hd_gpu_get_first_conv(const struct hd_gpu_plan *plan,
                                                             int64_t rows)
{
    const struct hd_gpu_layer *layer = &plan->layers[0];
    return (struct hd_gpu_first_conv){.window = layer->window, .rows = rows, .out = layer->out};
}

/* Returns the observations that a forward pass of `rows` rows has kept. */
struct hd_gpu_obs hd_gpu_get_kept_obs(const struct hd_gpu_plan *plan, int64_t rows,
                                      const struct hd_gpu_work *work);

/* Computes q of the observations' rows. Returns HD_OK or an error of a launch or GEMM (logged). */
int hd_gpu_forward(const struct hd_gpu_pass *pass, const struct hd_gpu_obs *obs, int64_t rows,
                   const struct hd_gpu_work *work, float *q);

/* Computes the gradients of the layers of stages [first, last), in GPU order. `work` is the memory
 * of a forward pass of `forward_rows` rows. Returns HD_OK or an error of a launch or GEMM (logged).
 */
int hd_gpu_backward(const struct hd_gpu_pass *pass, int64_t rows, int64_t forward_rows,
                    const struct hd_gpu_work *work, const float *dq,
                    const struct hd_gpu_scratch *scratch, int first, int last, float *gradient);

#endif
