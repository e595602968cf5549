/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the passes: prefetching during a pass, and the geometry of the gradients. A convolution
 * of stride s is a convolution of stride 1 on the s x s images made of every s-th pixel (phases).
 * If outputs are spread to rows as wide as such an image's, with zeros in the gaps, the pixels that
 * a weight touches are the same run of pixels as the outputs, moved by a constant. Thread safe. */
#pragma once

#include "kernels/common/amx.h"
#include "kernels/conv/conv_amx_internal.h"

#ifdef HD_AMX

#define HD_CONV_AMX_NAME "heddle amx_bf16"

enum { HD_LINE = 64 /* bytes */ };

/* Memory that is fetched while tiles are multiplied, some lines at each step. */
struct hd_fetch {
    const char *at, *end;
    int64_t lines;
    bool write;
};

/* Plans to fetch all of `prefetch` in `steps` steps. */
static inline struct hd_fetch hd_fetch_make(const struct hd_conv_prefetch *prefetch, int64_t steps)
{
    const char *at = prefetch->at;
    const int64_t lines = at && steps > 0 ? (prefetch->bytes / HD_LINE + steps - 1) / steps : 0;
    return (struct hd_fetch){at, at + (lines > 0 ? prefetch->bytes : 0), lines, prefetch->write};
}

/* Fetches the lines of one step. */
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
    int64_t height, width; /* size of a phase, which is every s-th pixel */
    int64_t side;          /* side of the kernel on a phase */
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
