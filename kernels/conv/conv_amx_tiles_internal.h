/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes have in common: fetching memory meanwhile, and what the gradients know. A
 * convolution of stride s is one of stride 1 on the s x s phases of every s-th pixel. On such an
 * image a weight meets a run of pixels that is the run of outputs, moved by a constant, if the
 * outputs are spread to rows as wide as the image's with zeros in the gaps. */
#ifndef HD_KERNELS_CONV_CONV_AMX_TILES_INTERNAL_H
#define HD_KERNELS_CONV_CONV_AMX_TILES_INTERNAL_H

#include "kernels/common/amx.h"
#include "kernels/conv/conv_amx_internal.h"

#ifdef HD_AMX

enum { HD_LINE = 64 /* bytes */ };

/* What is fetched while tiles are multiplied: so many lines a step. */
struct hd_fetch {
    const char *at, *end;
    int64_t lines;
    bool write;
};

/* All of `ahead` in `steps` steps. */
static inline struct hd_fetch hd_fetch_make(const struct hd_conv_prefetch *prefetch, int64_t steps)
{
    const char *at = prefetch->at;
    const int64_t lines = at && steps > 0 ? (prefetch->bytes / HD_LINE + steps - 1) / steps : 0;
    return (struct hd_fetch){at, at + (lines > 0 ? prefetch->bytes : 0), lines, prefetch->write};
}

/* One step. */
HD_ALWAYS void hd_fetch_some(struct hd_fetch *f)
{
    for (int64_t i = 0; i < f->lines && f->at < f->end; i++, f->at += HD_LINE)
        if (f->write)
            __builtin_prefetch(f->at, 1, 2);
        else
            __builtin_prefetch(f->at, 0, 2);
}

/* Sizes that follow from the fields. */
struct hd_conv_geometry {
    int64_t out_height, out_width;
    int64_t height, width; /* of a phase: every s-th pixel */
    int64_t side;          /* of the kernel on it */
    int64_t in_blocks, out_blocks;
};

static inline struct hd_conv_geometry hd_conv_geometry_make(const struct hd_conv_fields *f)
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
