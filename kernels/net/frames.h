/* SPDX-License-Identifier: Apache-2.0 */
/* Converts observations made of frames to the input of the first convolution. Folding by a factor f
 * turns [C][H][W] into [C f f][H / f][W / f], channel (c f + y % f) f + x % f. A convolution with
 * kernel k and stride f on the one is a convolution with kernel k / f and stride 1 on the other,
 * with the same products in the same sums, but with enough channels to compute fast. Thread
 * safe. */
#pragma once

#include "kernels/conv/conv.h"
#include "kernels/net/obs_norm.h"

struct hd_frames {
    int64_t channels, height, width; /* sizes of an observation */
    int64_t block;                   /* f, a divisor of height and width; 1: not folded */
    enum hd_layout layout;           /* layout of the result */
    bool bf16;
};

/* Converts bytes obs[rows][C][H][W], normalised by `norm` or, if that is NULL, divided by 255 with
 * a division's bits; then rounded if bf16. */
void hd_frames_convert_bytes(const struct hd_frames *frames, const struct hd_obs_norm *norm,
                             int64_t rows, const uint8_t *obs, void *to);

/* Converts floats obs[rows][C][H][W], normalised by `norm` or unchanged if that is NULL; then
 * rounded if bf16. */
void hd_frames_convert_floats(const struct hd_frames *frames, const struct hd_obs_norm *norm,
                              int64_t rows, const float *obs, void *to);

/* Copies floats or bf16 back to obs[rows][C][H][W], without undoing the normalisation. */
void hd_frames_restore(const struct hd_frames *frames, int64_t rows, const void *from, float *obs);

/* Copies the weights of the plain convolution, row_major[out][C][kernel][kernel], to those of the
 * folded one, folded[out][C f f][kernel / f][kernel / f], if `fold`; else back. f divides the
 * kernel. */
void hd_frames_copy_weights(const struct hd_frames *frames, int64_t out, int64_t kernel,
                            float *row_major, float *folded, bool fold);
