/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What DI-engine's WarpFrame does to a screen (spec 7.2), equal to OpenCV's bytes: RGB to gray,
 * then resize to 84 x 84 by area (cv::INTER_AREA). Sums run in float32, columns first, taps in
 * increasing order; no contraction to fused multiply-adds. Thread safe, no allocation. */
#ifndef HD_KERNELS_ENVS_ATARI_WARP_H
#define HD_KERNELS_ENVS_ATARI_WARP_H

#include <stdint.h>

enum {
    HD_WARP_SIZE = 84,
    HD_WARP_MAX = 320,  /* largest height or width of a screen */
    HD_WARP_LANES = 96, /* destination columns, padded to whole vectors */
    HD_WARP_TAPS = 5    /* source pixels under one destination pixel, at most */
};

/* The weights of one size of screen; made once, then read only. */
struct hd_warp {
    int height, width;
    int row_taps, column_taps;
    int16_t row[HD_WARP_SIZE];                        /* first source row of each destination row */
    float row_weight[HD_WARP_SIZE][HD_WARP_TAPS];     /* 0 beyond the last */
    int16_t column[HD_WARP_TAPS][HD_WARP_LANES];      /* source column of each tap */
    float column_weight[HD_WARP_TAPS][HD_WARP_LANES]; /* 0 beyond the last */
    int16_t window[HD_WARP_LANES / 16];               /* where 16 columns' sources begin, … */
    uint8_t within[HD_WARP_TAPS][HD_WARP_LANES];      /* … and each source within those bytes */
};

/* Gray values of pairs of palette indices: what the per-channel maximum of two frames shows. */
struct hd_warp_palette {
    uint8_t same[256];      /* [a]: of the pair (a, a) */
    uint8_t pair[256][256]; /* [a][b] */
};

/* Prepares for screens of height x width, each from 84 to HD_WARP_MAX (smaller ones are no area
 * resize). Where both are whole multiples of 84, OpenCV itself takes another, integer way. */
void hd_warp_init(struct hd_warp *warp, int height, int width);

/* For the colours rgb[256] (0xRRGGBB). */
void hd_warp_palette_init(struct hd_warp_palette *palette, const uint32_t rgb[256]);

/* OpenCV's RGB2GRAY of one pixel, 15-bit coefficients. */
static inline uint8_t hd_warp_get_luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (uint8_t)((9798 * r + 19235 * g + 3735 * b + 16384) >> 15);
}

/* gray[height][width] to out[84][84]; they do not overlap. */
void hd_warp_resize_gray(const struct hd_warp *warp, const uint8_t *gray, uint8_t *out);

/* rgb[height][width][3] to out[84][84]; they do not overlap. */
void hd_warp_resize_rgb(const struct hd_warp *warp, const uint8_t *rgb, uint8_t *out);

/* Two frames of palette indices, a and b [height][width] (they may be the same memory), to
 * out[84][84]: gray of the maximum per colour channel, resized. */
void hd_warp_resize_max(const struct hd_warp *warp, const struct hd_warp_palette *palette,
                        const uint8_t *a, const uint8_t *b, uint8_t *out);

#endif
