/* SPDX-License-Identifier: Apache-2.0 */
/* What the gradients by weights and by data have in common. A convolution of stride s is one of
 * stride 1 on the s x s images of every s-th pixel. On such an image a weight meets a run of pixels
 * that is the run of outputs, moved by a constant, if the outputs are spread to rows as wide as the
 * image's with zeros in the gaps. */
#ifndef HD_KERNELS_CONV_AMX_INTERNAL_H
#define HD_KERNELS_CONV_AMX_INTERNAL_H

#include "kernels/amx_internal.h"
#include "kernels/conv_internal.h"

#ifdef HD_AMX

enum { HD_CONV_PIXELS = 32 /* of a tile whose summed index is the pixel */ };

/* Sizes that follow from the fields. */
struct hd_conv_geometry {
    int64_t out_height, out_width;
    int64_t height, width; /* of an image of every s-th pixel */
    int64_t side;          /* of the kernel on it */
    int64_t in_blocks, out_blocks;
};

static inline struct hd_conv_geometry hd_conv_geometry_of(const struct hd_conv_fields *f)
{
    return (struct hd_conv_geometry){.out_height = (f->in_height - f->kernel) / f->stride + 1,
                                     .out_width = (f->in_width - f->kernel) / f->stride + 1,
                                     .height = (f->in_height + f->stride - 1) / f->stride,
                                     .width = (f->in_width + f->stride - 1) / f->stride,
                                     .side = f->kernel / f->stride,
                                     .in_blocks = f->in_channels / HD_TILE_ROWS,
                                     .out_blocks = f->out_channels / HD_TILE_ROWS};
}

#endif

#endif
