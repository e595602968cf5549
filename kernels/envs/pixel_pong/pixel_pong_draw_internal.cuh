/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the frames of pixel_pong on a GPU: a thread block draws the frame of one env. */
#pragma once

#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/envs/pixel_pong/pixel_pong_game_internal.h"
#include "kernels/envs/pixel_pong/pixel_pong_screen_internal.h"
}

/* Each thread draws the same four pixels of every twelfth row. */
enum { QUADS = HD_WARP_SIZE / 4, ROWS = 12, THREADS = QUADS * ROWS };
static_assert(QUADS * 4 == HD_WARP_SIZE && HD_WARP_SIZE % ROWS == 0, "rows of whole quads");
static_assert(offsetof(struct hd_pong_group, painter.base) % 4 == 0, "base is read by quads");

/* Four destination columns from `column` on, and the parts of shapes that lie in them. */
struct strip {
    const struct hd_pong_painter *painter;
    struct hd_pong_shape shapes[SHAPES];
    uint64_t words[SHAPES]; /* pixels from the source of the first column on */
    int column;
};

static inline __device__ void cut_strip(struct strip *strip, const struct hd_pong_painter *painter,
                                        const struct hd_pong_scene scenes[2], int column)
{
    const int16_t *first = &painter->warp.column[0][column];
    const int width = first[3] + ROW_TAPS - first[0];
    strip->painter = painter;
    strip->column = column;
    hd_pong_make_shapes(scenes, strip->shapes);
    for (int i = 0; i < SHAPES; i++)
        strip->words[i] =
            hd_pong_get_shape_word(&strip->shapes[i], first[0]) & (((uint64_t)1 << 2 * width) - 1);
}

/* Returns whether rows [y, y + ROW_TAPS) of the screen differ from the empty field's in this
 * strip. */
static inline __device__ bool is_touched(const struct strip *strip, int y)
{
    bool touched = false;
    for (int i = 0; i < SHAPES; i++)
        touched |=
            strip->words[i] != 0 && strip->shapes[i].y0 < y + ROW_TAPS && strip->shapes[i].y1 > y;
    return touched;
}

/* Computes the pixel of a column from the words of the rows, as pixel_pong_screen.c does. */
static inline __device__ unsigned char shrink(const struct strip *strip,
                                              const uint64_t words[ROW_TAPS],
                                              const float weight[ROW_TAPS], int column)
{
    const struct hd_pong_painter *painter = strip->painter;
    const int16_t *first = painter->warp.column[0];
    float row[ROW_TAPS];
    for (int k = 0; k < ROW_TAPS; k++)
        row[k] = painter->sums[column][words[k] >> 2 * (first[column] - first[strip->column]) & 63];
    const float sum = row[0] * weight[0] + row[1] * weight[1] + row[2] * weight[2];
    const int32_t gray = (int32_t)(sum + 8388608.0f) & 255;
    return (unsigned char)(gray == painter->background ? 0 : gray);
}

static inline __device__ uchar4 draw_quad(const struct strip *strip, int r)
{
    const struct hd_pong_painter *painter = strip->painter;
    const int top = painter->warp.row[r], c = strip->column;
    const float *weight = painter->warp.row_weight[r];
    if (!is_touched(strip, top))
        return *(const uchar4 *)(painter->base + r * HD_WARP_SIZE + c);
    uint64_t words[ROW_TAPS];
    for (int k = 0; k < ROW_TAPS; k++) {
        int until;
        words[k] = hd_pong_get_row_word(strip->shapes, strip->words, SHAPES, top + k, &until);
    }
    return make_uchar4(shrink(strip, words, weight, c), shrink(strip, words, weight, c + 1),
                       shrink(strip, words, weight, c + 2), shrink(strip, words, weight, c + 3));
}

/* The destination of a frame. */
struct target {
    uint8_t *frame; /* [84 * 84] */
    uint8_t *obs;   /* [stack][84 * 84], to which the frame is appended; or NULL */
    int64_t stack;
    bool first; /* true: every frame of the observation becomes this frame */
};

static inline __device__ uchar4 *quad_at(uint8_t *frames, int64_t frame, int at)
{
    return (uchar4 *)(frames + frame * HD_PIXEL_PONG_FRAME + at);
}

static inline __device__ void put_quad(const struct target *target, int at, uchar4 quad)
{
    *quad_at(target->frame, 0, at) = quad;
    if (!target->obs)
        return;
    for (int64_t i = 0; i + 1 < target->stack; i++)
        *quad_at(target->obs, i, at) = target->first ? quad : *quad_at(target->obs, i + 1, at);
    *quad_at(target->obs, target->stack - 1, at) = quad;
}

static inline __device__ void draw(const struct hd_pong_painter *painter,
                                   const struct hd_pong_scene scenes[2],
                                   const struct target *target)
{
    struct strip strip;
    cut_strip(&strip, painter, scenes, (int)threadIdx.x % QUADS * 4);
    for (int r = (int)threadIdx.x / QUADS; r < HD_WARP_SIZE; r += ROWS)
        put_quad(target, r * HD_WARP_SIZE + strip.column, draw_quad(&strip, r));
}
