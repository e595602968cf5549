/* SPDX-License-Identifier: Apache-2.0 */
/* A convolutional net: DI-engine's ConvEncoder (three convolutions with ReLU, then a dense layer
 * without, `mid`) and its heads (a hidden layer with ReLU and an output layer per stream). Threads
 * as in kernels/net/net.h. */
#ifndef HD_KERNELS_NET_NET_CONV_INTERNAL_H
#define HD_KERNELS_NET_NET_CONV_INTERNAL_H

#include "kernels/conv/conv.h"
#include "kernels/dense/packed_linear.h"
#include "kernels/net/frames.h"
#include "kernels/net/net_internal.h"
#include "runtime/base/alloc.h"

/* The front consists of the convolutions with large activations. A pass goes through all of the
 * front part by part, so that activations are still in the cache when the next convolution reads
 * them. */
enum { HD_CONVS = 3, HD_FRONT = 2 };

/* Offsets of a weight and a bias: in floats of the flat array, and for the shadow in bf16
 * elements. */
struct hd_layer_offsets {
    int64_t weight, weight_end, bias, bias_end, shadow;
};

/* The flat array has the order in which the backward pass finishes: output layer, hidden layer,
 * bias and weights of `mid`, the convolutions from the last to the first. Every tensor starts at a
 * multiple of HD_PACK_BLOCK, so that blocks of a shadow never cross the edge of a tensor or of a
 * range; the gaps are zero. */
struct hd_conv_net {
    struct hd_net base;
    struct hd_frames frames; /* input of the first convolution */
    int64_t channels[HD_CONVS];
    struct hd_conv *conv[HD_CONVS];
    struct hd_layer_offsets conv_offsets[HD_CONVS];
    int32_t *feature; /* [mid.in]: index among PyTorch's features of each output element of the last
                         convolution; -1: padding */
    int64_t width;    /* outputs of mid and of each stream's hidden layer */
    int streams;      /* 1, or 2: the actions' and the value's */
    struct hd_packed mid, hidden; /* hidden: the streams' layers side by side */
    struct hd_layer_offsets mid_offsets, hidden_offsets, output_offsets;
    int64_t forward_part, backward_part; /* rows that pass through the front at a time */
    int mid_stages; /* mid is cut by inputs, because it may hold nearly all parameters */
    int64_t mid_stage_blocks;
};

static inline const struct hd_conv_net *as_conv(const struct hd_net *net)
{
    return (const struct hd_conv_net *)net;
}

/* Returns the first element of the shadows in a params instance. */
static inline hd_bf16 *hd_conv_net_find_shadows(const struct hd_conv_net *net, void *params)
{
    int64_t bytes = net->base.elements * (int64_t)sizeof(float);
    return (hd_bf16 *)((char *)params + hd_align_up(bytes));
}

/* Returns how many of `rows` rows are processed at a time. */
static inline int64_t hd_conv_net_clip_part(int64_t part, int64_t rows)
{
    return rows < part ? rows : part;
}

/* Returns the padded length of a row of a dense layer, so that bf16 products find whole blocks. */
static inline int64_t hd_conv_net_get_row_ld(int64_t n)
{
    return (n + HD_PACK_IN - 1) / HD_PACK_IN * HD_PACK_IN;
}

/* Returns the bytes of an activation. */
static inline size_t hd_conv_net_get_element_bytes(const struct hd_conv_net *net)
{
    return net->base.bf16 ? sizeof(hd_bf16) : sizeof(float);
}

/* Cuts memory into aligned blocks, or only counts if `at` is NULL. */
struct hd_bump {
    char *at;
    int64_t used;
};

static inline void *hd_bump_take(struct hd_bump *bump, int64_t elements, size_t size)
{
    void *start = bump->at ? bump->at + bump->used : NULL;
    bump->used += hd_align_up(elements * (int64_t)size);
    return start;
}

/* The work memory of a forward pass of `rows` rows. In bf16 nets activations are bf16, except those
 * of the heads. */
struct hd_activations {
    void *input, *conv[HD_CONVS];
    hd_bf16 *features; /* [rows][row_ld(mid.in)]: padded features, where bf16 products need them;
                          else NULL */
    float *mid;        /* [rows][row_ld(mid.out)] */
    hd_bf16 *mid_bf16; /* [rows][row_ld(mid.out)]; NULL in float nets */
    float *hidden;     /* [rows][row_ld(hidden.out)], after the ReLU */
    void *scratch[HD_CONVS];
};

/* Assigns addresses in `work` (NULL: only counts) and returns the bytes. */
int64_t hd_activations_lay_out(const struct hd_conv_net *net, int64_t rows, void *work,
                               struct hd_activations *activations);

/* The functions of struct hd_net_ops for convolutional nets. They return a status as in
 * kernels/net/net.h. */
int hd_conv_net_export(const struct hd_net *net, const float *params, int i, float *row_major);
int hd_conv_net_import(const struct hd_net *net, const float *row_major, int i, float *params);
void hd_conv_net_refresh(const struct hd_net *net, void *params, int64_t lo, int64_t hi);
int hd_conv_net_prepare(const struct hd_net *net, int64_t batch, int64_t backward_batch);
int64_t hd_conv_net_get_forward_bytes(const struct hd_net *net, int64_t batch);
int hd_conv_net_forward(const struct hd_net *net, const void *params,
                        const struct hd_net_rows *rows, void *work, float *q);
int hd_conv_net_count_stages(const struct hd_net *net);
void hd_conv_net_get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p);
int64_t hd_conv_net_get_backward_bytes(const struct hd_net *net, int64_t batch);
int hd_conv_net_backward(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int stage, float *grad);

/* -- The output layers, in plain loops on floats ----------------------------------------------- */

/* Returns how many outputs these layers have for a row: actions, and one for the value's stream if
 * there is one. */
int64_t hd_heads_count_outputs(const struct hd_conv_net *net);

/* Computes q[rows][outputs] from hidden[rows][ld], the activations after the ReLU. */
void hd_heads_forward(const struct hd_conv_net *net, const float *params, int64_t rows,
                      const float *hidden, int64_t ld, float *q);

/* Computes from dq[rows][outputs] the gradients of the output layer's parameters, and
 * dhidden[rows][ld] before the ReLU; columns without a neuron become zero. */
void hd_heads_backward(const struct hd_conv_net *net, const float *params, int64_t rows,
                       const float *hidden, int64_t ld, const float *dq, float *grad,
                       float *dhidden);

#endif
