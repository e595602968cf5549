/* SPDX-License-Identifier: Apache-2.0 */
/* A Pong of our own, shown as DI-engine shows Atari's (docs/di-engine.md 7.1): 84 x 84 bytes of
 * gray made from the last two of four screens of 210 x 160, actions NOOP, FIRE, RIGHT (up), LEFT
 * (down), RIGHTFIRE, LEFTFIRE (FIRE does nothing), points to 21, rewards of +1 and -1, a few idle
 * screens at the start. The player has the right paddle. The opponent follows the ball, slower than
 * a ball returned with the edge of a paddle or after some exchanges. All state is integers, and the
 * game is a function of seed and actions.
 *
 * env.options: `background: G` shows pixels of gray G as 0 (the playfield's gray is 87).
 *
 * Threads as in kernels/envs/env.h; the functions for GPUs only launch kernels. */
#pragma once

#include "kernels/envs/env_gpu.h"
#include "kernels/envs/pixel_pong/pixel_pong_game.h"

extern const struct hd_env hd_env_pixel_pong;

/* Returns the two screens that an env shows (borrowed); they are equal after a reset. */
const struct hd_pong_scene *hd_pixel_pong_get_scenes(const void *group, int64_t env);

/* -- On a GPU ---------------------------------------------------------------------------------- */

/* Returns the bytes of a group of envs that a GPU steps (kernels/envs/env_gpu.h). Below, pointers
 * are to device memory, which is written in the order of `stream` alone, and arrays do not overlap.
 * Host scalars are fixed in a captured CUDA graph. */
int64_t hd_pixel_pong_get_cuda_bytes(int64_t envs);

/* Makes a group in host memory, of envs that were never reset; `background` as in env.options. */
void hd_pixel_pong_init_cuda(void *group, int64_t envs, int background);

/* Returns the address of an env's state in a group in any memory: the bytes that hd_env_pixel_pong
 * saves. */
void *hd_pixel_pong_get_cuda_state(void *group, int64_t env);

/* Do what the members of struct hd_env_gpu do. Return HD_OK or HD_ERR_DEVICE (logged). */
int hd_pixel_pong_begin_cuda(const struct hd_env_gpu_envs *envs,
                             const struct hd_env_gpu_steps *steps, void *stream);
int hd_pixel_pong_play_cuda(const struct hd_env_gpu_envs *envs,
                            const struct hd_env_gpu_steps *steps, int64_t t, void *stream);
int hd_pixel_pong_begin_evaluation_cuda(const struct hd_env_gpu_evaluation *evaluation,
                                        void *stream);
int hd_pixel_pong_evaluate_cuda(const struct hd_env_gpu_evaluation *evaluation, const float *out,
                                int64_t outputs, void *stream);
