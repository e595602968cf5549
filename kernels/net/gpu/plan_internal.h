/* SPDX-License-Identifier: Apache-2.0 */
/* A net as a GPU computes it: layers one behind another, each a product of matrices, the hidden
 * layers of the heads' streams side by side; and where everything lies. */
#ifndef HD_KERNELS_NET_GPU_PLAN_INTERNAL_H
#define HD_KERNELS_NET_GPU_PLAN_INTERNAL_H

#include "kernels/net/gpu/gemm.h"
#include "kernels/net/gpu/launches_internal.h"
#include "kernels/net/net_internal.h"

enum { HD_GPU_LAYERS = 24, HD_GPU_CONVS = 3 };

/* weight[out][in], its sizes filled up to multiples of HD_VECTOR. */
struct hd_gpu_layer {
    int64_t in, out, pixels; /* of a sample's output, each of which has `out` channels */
    bool conv, relu, wide;   /* wide: the output is floats, whatever activations are */
    struct hd_gpu_window window;
    int64_t weight, bias;   /* elements of the shadow */
    int64_t gradient, sums; /* of the weight, among gradients; of the bias, among sums of columns */
};

struct hd_gpu_plan {
    const struct hd_net *net;
    bool bf16, tf32;
    int convs, n_layers; /* the last one is the streams' hidden layer */
    struct hd_gpu_layer layers[HD_GPU_LAYERS];
    struct hd_gpu_heads heads;
    struct hd_gpu_layer output; /* offsets alone */
    int64_t obs_ld;             /* elements of an observation's row */
    int64_t narrow, wide;       /* elements of the shadow in either part */
    int64_t gradients, sums;    /* floats: of all weights' gradients; columns whose sums are kept */
};

/* HD_ERR_UNSUPPORTED (logged). */
int hd_gpu_plan_make(const struct hd_net *net, struct hd_gpu_plan *plan);

/* Where element j of tensor t lies: in the shadow; and its gradient, sums of columns counted from
 * plan->gradients on. */
struct hd_gpu_offsets {
    int64_t shadow, gradient;
};
struct hd_gpu_offsets hd_gpu_find_element(const struct hd_gpu_plan *plan, int t, int64_t j);

/* The layer that a tensor is of; those of the output layers count as the last one's. */
int hd_gpu_find_layer(const struct hd_gpu_plan *plan, int t);

/* Bytes of an activation. */
static inline int64_t hd_gpu_get_element_bytes(const struct hd_gpu_plan *plan)
{
    return plan->bf16 ? 2 : 4;
}

/* An element of the shadow of `params`. */
void *hd_gpu_find_shadow(const struct hd_gpu_plan *plan, const void *params, int64_t at);

/* -- Memory of passes -------------------------------------------------------------------------- */

/* Convolutions go over a sample's rows in parts, so that columns stay in the GPU's cache until they
 * are multiplied. Rows of a part, of so many. */
int64_t hd_gpu_count_part_rows(const struct hd_gpu_layer *layer, int64_t element, int64_t rows);

/* A forward pass leaves what it made. `columns` holds those of one part: all there are, or the last
 * ones; then observations are kept as `input`. */
struct hd_gpu_work {
    void *input; /* [rows][obs_ld]; NULL where columns hold all */
    void *columns[HD_GPU_CONVS], *act[HD_GPU_LAYERS], *workspace;
};

struct hd_gpu_scratch {
    void *delta[HD_GPU_LAYERS]; /* gradients of the layers' outputs before their ReLU */
    float *dout;                /* [rows][heads.ld_out] */
    void *columns;
    float *gradient, *sums;
    void *workspace;
};

/* Where they are in `memory` (NULL: only counts); return the bytes. */
int64_t hd_gpu_lay_out_work(const struct hd_gpu_plan *plan, int64_t rows, void *memory,
                            struct hd_gpu_work *work);
int64_t hd_gpu_lay_out_scratch(const struct hd_gpu_plan *plan, int64_t rows, void *memory,
                               struct hd_gpu_scratch *scratch);

/* Where a sample's row of layer i's activations begins. */
static inline void *hd_gpu_find_row(const struct hd_gpu_plan *plan, int i, void *act, int64_t row)
{
    const struct hd_gpu_layer *layer = &plan->layers[i];
    return (char *)act + row * layer->pixels * layer->out * hd_gpu_get_element_bytes(plan);
}

/* -- What is kept on a GPU --------------------------------------------------------------------- */

struct hd_net_on_gpu {
    struct hd_gpu_shadow shadow;
    const int32_t *gradient_at; /* of the GPU: by element of the flat array; -1: padding */
    int stage[HD_GPU_LAYERS];   /* in which a layer's gradients are computed */
    void *memory;
};

/* Made for the current GPU; released by hd_net_on_gpu_destroy (accepts NULL). HD_ERR_NOMEM,
 * HD_ERR_DEVICE, HD_ERR_UNSUPPORTED, logged. */
int hd_net_on_gpu_create(const struct hd_gpu_plan *plan, struct hd_net_on_gpu **on_p);
void hd_net_on_gpu_destroy(struct hd_net_on_gpu *on);

/* -- Passes ------------------------------------------------------------------------------------ */

/* `dry_run`: nothing is computed, but every GEMM is prepared. */
struct hd_gpu_pass {
    const struct hd_gpu_plan *plan;
    const struct hd_net_on_gpu *on; /* of backward */
    const void *params;
    bool dry_run;
    void *workspace, *stream;
};

/* A kernel's launch in a pass. */
#define HD_GPU_RUN(pass, launch)                                                                   \
    do {                                                                                           \
        if (!(pass)->dry_run)                                                                      \
            HD_TRY(launch);                                                                        \
    } while (0)

/* C of A and B, as kernels/net/gpu/gemm.h says. */
int hd_gpu_multiply(const struct hd_gpu_pass *pass, const struct hd_gemm *gemm, const void *a,
                    const void *b, const void *bias, void *c);

/* The observations that a forward pass of `rows` rows has kept. */
struct hd_gpu_obs hd_gpu_get_kept_obs(const struct hd_gpu_plan *plan, int64_t rows,
                                      const struct hd_gpu_work *work);

/* q of the observations' rows. */
int hd_gpu_forward(const struct hd_gpu_pass *pass, const struct hd_gpu_obs *obs, int64_t rows,
                   const struct hd_gpu_work *work, float *q);

/* What belongs to stages [first, last): layers, then floats of grad. `work` is that of a pass of
 * `forward_rows` rows. */
int hd_gpu_backward(const struct hd_gpu_pass *pass, int64_t rows, int64_t forward_rows,
                    const struct hd_gpu_work *work, const float *dq,
                    const struct hd_gpu_scratch *scratch, int first, int last, float *grad);

#endif
