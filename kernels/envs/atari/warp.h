/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DI-engine's WarpFrame (docs/di-engine.md 7.2), equal to OpenCV's bytes: RGB to gray, then
 * resizing to 84 x 84 by area (cv::INTER_AREA). Sums run in float32, columns first, taps in
 * increasing order, without fused multiply-adds. Thread safe, no allocation. */
#pragma once

#include <stdint.h>

enum {
    HD_WARP_SIZE = 84,
    HD_WARP_MAX = 320,  /* largest height or width of a screen */
    HD_WARP_LANES = 96, /* destination columns, padded to whole vectors */
    HD_WARP_TAPS = 5    /* source pixels under one destination pixel, at most */
};

/* The weights for one size of screen; read-only once made. */
struct hd_warp {
    int height, width;
    int row_taps, column_taps;
    int16_t row[HD_WARP_SIZE];                        /* first source row of each destination row */
    float row_weight[HD_WARP_SIZE][HD_WARP_TAPS];     /* 0 beyond the last */
    int16_t column[HD_WARP_TAPS][HD_WARP_LANES];      /* source column of each tap */
    float column_weight[HD_WARP_TAPS][HD_WARP_LANES]; /* 0 beyond the last */
    int16_t window[HD_WARP_LANES / 16];               /* first source of each 16 columns, … */
    uint8_t within[HD_WARP_TAPS][HD_WARP_LANES]; /* … and the offset of each source from it */
};

/* Gray values of pairs of palette indices: the per-channel maximum of two frames. */
struct hd_warp_palette {
    uint8_t same[256];      /* [a]: gray of the pair (a, a) */
    uint8_t pair[256][256]; /* [a][b] */
};

/* Prepares for screens of height x width, each from 84 to HD_WARP_MAX; smaller screens would not be
 * resized by area. Where both are whole multiples of 84, OpenCV itself uses another method, in
 * integers. */
void hd_warp_init(struct hd_warp *warp, int height, int width);

/* Prepares for the colours rgb[256] (0xRRGGBB). */
void hd_warp_palette_init(struct hd_warp_palette *palette, const uint32_t rgb[256]);

/* Returns the gray value of one pixel as OpenCV's RGB2GRAY does, with 15-bit coefficients. */
static inline uint8_t hd_warp_get_luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (uint8_t)((9798 * r + 19235 * g + 3735 * b + 16384) >> 15);
}

/* Resizes gray[height][width] to out[84][84]; they do not overlap. */
void hd_warp_resize_gray(const struct hd_warp *warp, const uint8_t *gray, uint8_t *out);

/* Converts and resizes rgb[height][width][3] to out[84][84]; they do not overlap. */
void hd_warp_resize_rgb(const struct hd_warp *warp, const uint8_t *rgb, uint8_t *out);

/* Resizes the gray of the maximum per colour channel of two frames of palette indices, a and b
 * [height][width] (they may be the same memory), to out[84][84]. */
void hd_warp_resize_max(const struct hd_warp *warp, const struct hd_warp_palette *palette,
                        const uint8_t *a, const uint8_t *b, uint8_t *out);
