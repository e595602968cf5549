/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of pixel_pong's screen, in pixels, and two ways to draw it. One draws whole RGB
 * screens, for films and tests. The other draws what DI-engine's wrappers make of the last two
 * screens (their maximum per channel, gray, resized by area: docs/di-engine.md 7.1 and 7.2), equal
 * to the byte and a hundred times faster, because it computes only the pixels around paddles and
 * ball. No colour is darker than the background's in any channel, so the maximum shows the shapes
 * of both screens. Thread safe. */
#pragma once

#include "kernels/envs/atari/warp.h"

enum {
    HD_PONG_WIDTH = 160,
    HD_PONG_HEIGHT = 210,
    HD_PONG_TOP = 34, /* rows [24, 34) and [194, 210) are walls */
    HD_PONG_BOTTOM = 194,
    HD_PONG_WALL = 24,
    HD_PONG_OPPONENT_X = 16, /* left edges of the paddles */
    HD_PONG_PLAYER_X = 140,
    HD_PONG_PADDLE_WIDTH = 4,
    HD_PONG_PADDLE_HEIGHT = 16,
    HD_PONG_BALL = 4 /* width and height */
};

/* One screen: left edge and top of the ball, tops of the opponent's and the player's paddle. The
 * ball lies within the screen's columns, everything between the walls. */
struct hd_pong_scene {
    int32_t ball_x, ball_y;
    int32_t paddle[2];
};

/* Tables for fast drawing; read-only once made. */
struct hd_pong_painter {
    struct hd_warp warp;
    int background;                            /* gray value that is shown as 0; -1: none */
    uint8_t base[HD_WARP_SIZE * HD_WARP_SIZE]; /* walls and background */
    float sums[HD_WARP_SIZE][64]; /* sum of a column, by the colours of its three source pixels */
};

/* Draws the RGB screen rgb[210][160][3]. */
void hd_pong_draw_screen(const struct hd_pong_scene *scene, uint8_t *rgb);

/* Makes the tables for frames that show gray `background` as 0 (-1: as it is). */
void hd_pong_painter_init(struct hd_pong_painter *painter, int background);

/* Draws two successive screens, as DI-engine's wrappers show them, to out[84][84]. */
void hd_pong_paint(const struct hd_pong_painter *painter, const struct hd_pong_scene scenes[2],
                   uint8_t *out);
