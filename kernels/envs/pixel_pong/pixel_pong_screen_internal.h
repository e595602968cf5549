/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes on two screens of pixel_pong, for CPUs and GPUs, and the rows of the screen as words
 * of two bits a pixel. The maximum of colours is the OR of words, because the paddles never meet
 * and white is all bits. Thread safe. */
#pragma once

#include "kernels/envs/pixel_pong/pixel_pong_screen.h"
#include "runtime/base/inline.h"

enum { ROW_TAPS = 3, SHAPES = 4, WORD_PIXELS = 32 /* pixels of a word */ };

enum hd_pong_colour { HD_PONG_BACKGROUND, HD_PONG_ORANGE, HD_PONG_GREEN, HD_PONG_WHITE };

/* A part of the screen, rows [y0, y1), columns [x0, x1), in one colour. */
struct hd_pong_shape {
    int x0, x1, y0, y1;
    enum hd_pong_colour colour;
};

/* Returns the smaller of two numbers. */
HD_INLINE int hd_pong_min(int a, int b)
{
    return a < b ? a : b;
}

/* Returns the larger of two numbers. */
HD_INLINE int hd_pong_max(int a, int b)
{
    return a > b ? a : b;
}

/* Returns a shape's pixels in the WORD_PIXELS columns from `from` on. */
HD_INLINE uint64_t hd_pong_get_shape_word(const struct hd_pong_shape *shape, int from)
{
    const int begin = hd_pong_max(shape->x0 - from, 0),
              end = hd_pong_min(shape->x1 - from, WORD_PIXELS);
    if (begin >= end)
        return 0;
    const uint64_t pixels = ~(uint64_t)0 >> (64 - 2 * (end - begin)) << 2 * begin;
    return pixels & 0x5555555555555555u * shape->colour;
}

/* Returns the word of row y, to which shapes[n] contribute words[n] in the rows that they cover,
 * and stores in *until_p the next row that may have another word. */
HD_INLINE uint64_t hd_pong_get_row_word(const struct hd_pong_shape *shapes, const uint64_t *words,
                                        int n, int y, int *until_p)
{
    static const int edges[] = {HD_PONG_WALL, HD_PONG_TOP, HD_PONG_BOTTOM, HD_PONG_HEIGHT};
    uint64_t word = 0;
    int edge = 0, until;
    while (y >= edges[edge])
        edge++;
    until = edges[edge];
    for (int i = 0; i < n; i++) {
        const int begin = shapes[i].y0, end = shapes[i].y1;
        word |= y >= begin && y < end ? words[i] : 0;
        until = y < begin ? hd_pong_min(until, begin) : y < end ? hd_pong_min(until, end) : until;
    }
    *until_p = until;
    return edge % 2 ? ~(uint64_t)0 : word;
}

/* Returns the union of a side's paddle on both screens, whose positions overlap or touch. */
HD_INLINE struct hd_pong_shape hd_pong_make_paddle_shape(const struct hd_pong_scene scenes[2],
                                                         int side)
{
    const int x = side ? HD_PONG_PLAYER_X : HD_PONG_OPPONENT_X;
    const struct hd_pong_shape shape = {
        .x0 = x,
        .x1 = x + HD_PONG_PADDLE_WIDTH,
        .y0 = hd_pong_min(scenes[0].paddle[side], scenes[1].paddle[side]),
        .y1 = hd_pong_max(scenes[0].paddle[side], scenes[1].paddle[side]) + HD_PONG_PADDLE_HEIGHT,
        .colour = side ? HD_PONG_GREEN : HD_PONG_ORANGE,
    };
    return shape;
}

/* Returns the ball of one screen. */
HD_INLINE struct hd_pong_shape hd_pong_make_ball_shape(const struct hd_pong_scene *scene)
{
    const struct hd_pong_shape shape = {
        .x0 = scene->ball_x,
        .x1 = scene->ball_x + HD_PONG_BALL,
        .y0 = scene->ball_y,
        .y1 = scene->ball_y + HD_PONG_BALL,
        .colour = HD_PONG_WHITE,
    };
    return shape;
}

/* Fills shapes with everything that two successive screens show: paddles, then balls. */
HD_INLINE void hd_pong_make_shapes(const struct hd_pong_scene scenes[2],
                                   struct hd_pong_shape shapes[SHAPES])
{
    shapes[0] = hd_pong_make_paddle_shape(scenes, 0);
    shapes[1] = hd_pong_make_paddle_shape(scenes, 1);
    shapes[2] = hd_pong_make_ball_shape(&scenes[0]);
    shapes[3] = hd_pong_make_ball_shape(&scenes[1]);
}
