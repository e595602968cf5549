/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a convolution: sizes, layouts and passes. Thread safe. */
#pragma once

#include "kernels/common/bf16.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The layout of one observation's elements; observations follow one another. */
enum hd_layout {
    HD_NCHW,  /* [channel][y][x] */
    HD_NHWC,  /* [y][x][channel] */
    HD_NCHW16 /* [channel / 16][y][x][channel % 16]; missing channels are zero */
};

enum { HD_LAYOUT_LANES = 16 /* channels of a block of HD_NCHW16 */ };

/* Returns the channels that a layout stores, with those that fill its last block up. */
static inline int64_t hd_layout_count_stored(enum hd_layout layout, int64_t channels)
{
    return layout == HD_NCHW16
               ? (channels + HD_LAYOUT_LANES - 1) / HD_LAYOUT_LANES * HD_LAYOUT_LANES
               : channels;
}

struct hd_conv_fields {
    int64_t in_channels, in_height, in_width, out_channels, kernel, stride;
    int64_t padding; /* zeros around the image, on every side */
    enum hd_layout input;
    bool relu; /* the forward pass ends with a ReLU */
    bool bf16; /* activations, their gradients and the weights of the forward pass are bf16 */
};

/* Returns the outputs along a side of the input; the kernel fits into the padded image. */
static inline int64_t hd_conv_count_outputs(const struct hd_conv_fields *f, int64_t side)
{
    return (side + 2 * f->padding - f->kernel) / f->stride + 1;
}

/* The forward pass, and the gradients of the weights and of the input data. */
enum hd_conv_pass { HD_CONV_FORWARD, HD_CONV_WEIGHTS, HD_CONV_DATA, HD_CONV_PASSES };

/* Memory that will be read or written soon. A pass that can do so fetches it into the cache while
 * it computes. */
struct hd_conv_prefetch {
    const void *at; /* NULL: none */
    int64_t bytes;
    bool write;
};

struct hd_conv; /* kernels/conv/conv.h */

/* A pass in progress. It begins, processes observations part by part, and ends. All memory belongs
 * to the caller and stays in place until then; no two pointers overlap. */
struct hd_conv_run {
    struct hd_conv *conv;
    enum hd_conv_pass pass;
    int64_t max_batch;       /* observations of a part, at most */
    const void *weights;     /* in a forward pass the shadow if there is one, else the floats; in
                                HD_CONV_DATA the floats */
    const float *bias;       /* [out], in a forward pass */
    float *dweights, *dbias; /* in HD_CONV_WEIGHTS: sums over all parts, complete at the end */
    void *scratch;           /* 64-byte aligned */
    struct hd_conv_prefetch prefetch; /* for the next part; may differ from part to part */
    bool begun;                       /* private */
};
