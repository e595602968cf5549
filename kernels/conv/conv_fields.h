/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a convolution: sizes, layouts and passes. Types only, hence safe in any
 * thread. */
#ifndef HD_KERNELS_CONV_CONV_FIELDS_H
#define HD_KERNELS_CONV_CONV_FIELDS_H

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

struct hd_conv_fields {
    int64_t in_channels, in_height, in_width, out_channels, kernel, stride;
    enum hd_layout input;
    bool bf16; /* activations, their gradients and the weights of the forward pass are bf16 */
};

/* The forward pass, and the gradients of the weights and of the input data. */
enum hd_conv_pass { HD_CONV_FORWARD, HD_CONV_WEIGHTS, HD_CONV_DATA, HD_CONV_PASSES };

/* Memory that will be read or written soon. A pass that can do so fetches it into the cache while
 * it computes. */
struct hd_conv_prefetch {
    const void *at; /* NULL: none */
    int64_t bytes;
    bool write;
};

#endif
