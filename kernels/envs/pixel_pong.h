/* SPDX-License-Identifier: Apache-2.0 */
/* Pong of our own, seen as DI-engine sees Atari's (spec 7.1): 84 x 84 bytes of gray made from the
 * last two of four screens of 210 x 160, actions NOOP, FIRE, RIGHT (up), LEFT (down), RIGHTFIRE,
 * LEFTFIRE (FIRE does nothing), points to 21, rewards of +1 and -1, a few idle screens at the
 * start. The player has the right paddle. The opponent follows the ball, slower than a ball
 * returned with the edge of a paddle or after some exchanges. All state is integers, and the game a
 * function of seed and actions.
 *
 * env.options: `background: G` shows pixels of gray G as 0 (the playfield's gray is 87). */
#ifndef HD_KERNELS_ENVS_PIXEL_PONG_H
#define HD_KERNELS_ENVS_PIXEL_PONG_H

#include "kernels/envs/env.h"
#include "kernels/envs/pixel_pong_screen.h"

enum {
    HD_PIXEL_PONG_ACTIONS = 6,
    HD_PIXEL_PONG_SKIP = 4,           /* screens of a step */
    HD_PIXEL_PONG_POINTS = 21,        /* of a game */
    HD_PIXEL_PONG_MAX_SCREENS = 40000 /* then a game is cut off */
};

extern const struct hd_env hd_env_pixel_pong;

/* The two screens that an env shows; equal after a reset. */
const struct hd_pong_scene *hd_pixel_pong_scenes(const void *group, int64_t env);

#endif
