/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a game of pixel_pong. Constants only, hence safe in any thread. */
#pragma once

#include "kernels/envs/pixel_pong/pixel_pong_screen.h"

enum {
    HD_PIXEL_PONG_FRAME = HD_WARP_SIZE * HD_WARP_SIZE, /* bytes of a frame */
    HD_PIXEL_PONG_ACTIONS = 6,
    HD_PIXEL_PONG_SKIP = 4,           /* screens for each step */
    HD_PIXEL_PONG_POINTS = 21,        /* points of a side that end a game */
    HD_PIXEL_PONG_MAX_SCREENS = 40000 /* after these a game is cut off */
};
