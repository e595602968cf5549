/* SPDX-License-Identifier: Apache-2.0 */
/* Pong of our own, seen as DI-engine sees Atari's (spec 7.1): 84 x 84 bytes of gray made from the
 * last two of four screens of 210 x 160, actions NOOP, FIRE, RIGHT (up), LEFT (down), RIGHTFIRE,
 * LEFTFIRE (FIRE does nothing), points to 21, rewards of +1 and -1, a few idle screens at the
 * start. The player has the right paddle. The opponent follows the ball, slower than a ball
 * returned with the edge of a paddle or after some exchanges. All state is integers, and the game a
 * function of seed and actions.
 *
 * env.options: `background: G` shows pixels of gray G as 0 (the playfield's gray is 87). */
#ifndef HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_H
#define HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_H

#include "kernels/envs/env.h"
#include "kernels/envs/pixel_pong/pixel_pong_game.h"

extern const struct hd_env hd_env_pixel_pong;

/* The two screens that an env shows; equal after a reset. */
const struct hd_pong_scene *hd_pixel_pong_get_scenes(const void *group, int64_t env);

/* -- On a GPU ------------------------------------------------------------------------------------
 *
 * Groups of thousands of envs that a GPU steps: from the same seeds and actions, the same bytes as
 * hd_env_pixel_pong's. A group is memory that means the same everywhere: plain bytes without
 * pointers, made on the host and copied from there. Below, pointers are to device memory, written
 * in the order of `stream` alone; none of the arrays overlap. What is a host scalar is fixed in a
 * captured graph. Errors: HD_ERR_DEVICE. */

/* Bytes of a group. */
int64_t hd_pixel_pong_get_cuda_bytes(int64_t envs);

/* Makes a group in host memory, of envs that were never reset; background as in env.options. */
void hd_pixel_pong_init_cuda(void *group, int64_t envs, int background);

/* For groups that come from a file: whether all of the host's group `group` is possible, its games
 * and what hd_pixel_pong_init_cuda(group, envs, background) made. */
bool hd_pixel_pong_is_cuda_possible(const void *group, int64_t envs, int background);

/* Where env `env` is in a group, wherever that is: the bytes that hd_env_pixel_pong saves. */
void *hd_pixel_pong_get_cuda_state(void *group, int64_t env);

/* Resets the envs e with chosen[e] (NULL: all), from seed[envs]; frames[envs][84 * 84], 4-byte
 * aligned, is written for them alone. */
int hd_pixel_pong_reset_cuda(void *group, int64_t envs, const bool *chosen, const uint64_t *seed,
                             uint8_t *frames, void *stream);

/* Steps all envs by action[envs]. The outcome's structure is the host's, its arrays are the
 * device's; obs is 4-byte aligned. */
int hd_pixel_pong_step_cuda(void *group, int64_t envs, const int32_t *action,
                            const struct hd_env_outcome *outcome, void *stream);

#endif
