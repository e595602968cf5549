/* SPDX-License-Identifier: Apache-2.0 */
/* Observations made of frames, as the first convolution wants them. Folding by a factor f turns
 * [C][H][W] into [C f f][H / f][W / f], channel (c f + y % f) f + x % f: a convolution with kernel
 * k and stride f on the one is a convolution with kernel k / f and stride 1 on the other, the same
 * products in the same sums, but with enough channels to compute fast. Thread safe. */
#ifndef HD_KERNELS_NET_FRAMES_H
#define HD_KERNELS_NET_FRAMES_H

#include "kernels/conv/conv.h"
#include "kernels/net/obs_norm.h"

struct hd_frames {
    int64_t channels, height, width; /* of an observation */
    int64_t block;                   /* f, a divisor of height and width; 1: as it is */
    enum hd_layout layout;           /* of the result */
    bool bf16;
};

/* obs[rows][C][H][W] as `norm` says, or, if it is NULL, divided by 255, to the bit what a division
 * gives; then rounded if bf16. */
void hd_frames_convert_bytes(const struct hd_frames *frames, const struct hd_obs_norm *norm,
                             int64_t rows, const uint8_t *obs, void *to);

/* obs[rows][C][H][W] as `norm` says, or as they are if it is NULL (rounded if bf16). */
void hd_frames_convert_floats(const struct hd_frames *frames, const struct hd_obs_norm *norm,
                              int64_t rows, const float *obs, void *to);

/* Weights of the two convolutions, plain and rearranged[out][C f f][kernel / f][kernel / f],
 * row_major[out] [C][kernel][kernel]; f divides the kernel. */
void hd_frames_rearrange_weights(const struct hd_frames *frames, int64_t out, int64_t kernel,
                                 const float *row_major, float *rearranged);
void hd_frames_restore_weights(const struct hd_frames *frames, int64_t out, int64_t kernel,
                               const float *rearranged, float *row_major);

#endif
