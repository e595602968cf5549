/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the passes of the first convolution (first_conv.h): how bytes enter the net, and how
 * the lines of an image are cut into bands that fit shared memory. */
#pragma once

#include "kernels/net/gpu/mma_internal.cuh"

extern "C" {
#include "kernels/net/gpu/first_conv.h"
#include "kernels/net/obs_norm.h"
}

enum {
    HD_FIRST_KERNEL = 8,
    HD_FIRST_STRIDE = 4, /* also the bytes that are read at once */
    HD_FIRST_WINDOW = HD_FIRST_KERNEL * HD_FIRST_KERNEL,
    HD_FIRST_CHANNELS = 4, /* channels whose factors are in shared memory at a time */
    HD_FIRST_NORM = 4,     /* where the scale begins in hd_gpu_kept_obs.norm */
};

/* A thread block holds as much at a time. Forward: groups of four neighbouring pixels of an image,
 * and pixels of the output. Gradient: pairs of pixels of an image, and of the output. */
enum {
    HD_FIRST_FOURS = 4096,
    HD_FIRST_PIXELS = 256,
    HD_FIRST_IMAGE_PAIRS = 6144,
    HD_FIRST_PAIRS = 64,
};

/* Returns the most rows of output that a forward pass can take at a time: a row needs
 * HD_FIRST_STRIDE lines more than the one before. May be 0 or less. */
static inline int32_t hd_first_count_rows(const struct hd_gpu_window *w)
{
    const int32_t lines = HD_FIRST_FOURS / (w->channels * (w->width / HD_FIRST_STRIDE));
    const int32_t fit = lines / HD_FIRST_STRIDE - (HD_FIRST_KERNEL / HD_FIRST_STRIDE - 1);
    return min(fit, HD_FIRST_PIXELS / w->out_width);
}

/* Returns the most pairs of rows of output that the gradient can take at a time. May be 0. */
static inline int32_t hd_first_count_row_pairs(const struct hd_gpu_window *w)
{
    const int32_t channels = min(w->channels, (int32_t)HD_FIRST_CHANNELS);
    const int32_t fit = HD_FIRST_IMAGE_PAIRS / (channels * HD_FIRST_KERNEL * w->width);
    return min(fit, HD_FIRST_PAIRS / w->out_width);
}

/* Rows of something that a thread block takes at a time: ceil(all / n) of them, at most `max`. */
struct hd_first_bands {
    int32_t rows, n;
};

static inline struct hd_first_bands hd_first_cut(int32_t all, int32_t max)
{
    const int32_t n = (all + max - 1) / max;
    const struct hd_first_bands bands = {(all + n - 1) / n, n};
    return bands;
}

/* Stores a launch's number of thread blocks. Returns HD_OK or HD_ERR_UNSUPPORTED (logged). */
static inline int hd_first_count_blocks(int64_t blocks, unsigned *blocks_p)
{
    *blocks_p = (unsigned)blocks;
    return blocks <= INT32_MAX
               ? HD_OK
               : hd_fail(HD_ERR_UNSUPPORTED, "images too large for a GPU's convolution");
}

/* Reads four neighbouring bytes, the first one lowest. */
template <bool ALIGNED> static inline __device__ uint32_t hd_first_read(const uint8_t *at)
{
    if (ALIGNED)
        return __ldg((const uint32_t *)at);
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Computes elements [j, j + 4) of an observation as they enter the net. The product with 1 / 255
 * and the quotient by 255 of each byte round to the same bf16. */
static inline __device__ void hd_first_enter(const struct hd_obs_norm &norm, uint32_t bytes,
                                             int64_t j, float x[HD_FIRST_STRIDE])
{
#pragma unroll
    for (int e = 0; e < HD_FIRST_STRIDE; e++) {
        const float byte = (float)(bytes >> 8 * e & 0xFF);
        x[e] = norm.scale ? hd_obs_normalise(&norm, j + e, byte) : byte * (1.0f / 255.0f);
    }
}

/* Calls launch(tiles), a std::integral_constant: the number of tiles of 8 output channels that a
 * warp computes at once. */
template <class Launch> static int hd_first_dispatch_tiles(int64_t out, Launch launch)
{
    return out > 2 * HD_VECTOR ? launch(std::integral_constant<int, 4>())
                               : launch(std::integral_constant<int, 2>());
}
