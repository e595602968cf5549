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
#include "kernels/envs/pixel_pong/pixel_pong_screen.h"

enum {
    HD_PIXEL_PONG_ACTIONS = 6,
    HD_PIXEL_PONG_SKIP = 4,           /* screens of a step */
    HD_PIXEL_PONG_POINTS = 21,        /* of a game */
    HD_PIXEL_PONG_MAX_SCREENS = 40000 /* then a game is cut off */
};

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

enum { HD_PIXEL_PONG_FRAME = HD_WARP_SIZE * HD_WARP_SIZE /* bytes */ };

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

/* Envs as a collector has them: what it remembers between steps, all zeros before the first
 * (tasks/types/collect/envs.h). Episode n of env e starts from hd_env_get_seed(seed, shard, first +
 * e, n). */
struct hd_pixel_pong_envs {
    int64_t envs, stack;    /* E; frames of an observation */
    uint64_t seed;          /* of the run */
    int64_t shard, first;   /* number of the first env in the shard */
    void *group;            /* of E envs */
    uint64_t *episode_seed; /* [E]: of the present episode */
    int64_t *episode;       /* [E]: its number, from 0 */
    double *episode_return; /* [E]: so far */
    int64_t *episode_steps; /* [E]: so far */
    int64_t *shown;         /* [E]: frames shown so far, in all episodes */
    uint8_t *obs;           /* [E][stack][84 * 84]: oldest first, 4-byte aligned */
};

/* What their steps leave (tasks/types/collect/trajectories.h): the frames that each env showed, the
 * i-th at i % F, and a record of each step. Step t of env e is at e T + t. */
struct hd_pixel_pong_steps {
    int64_t steps, frames; /* T; F >= stack */
    const bool *through;   /* [1]: where it is true, steps do nothing; NULL: never */
    int64_t *shown;        /* [E]: frames so far */
    int64_t *age;          /* [E]: frames of the present observation's episode before the
                              last one, at most stack - 1 */
    uint8_t *frame_data;   /* [E][F][84 * 84], 4-byte aligned */
    const int32_t *action; /* [E][T] */
    int32_t *frame;        /* [E][T]: the observation acted on ends with this frame */
    int32_t *frame_age;    /* [E][T]: frames of its episode before that one, as above */
    float *reward, *done;  /* [E][T]; done is 1 or 0 */
    bool *truncated;       /* [E][T]: done by the limit of screens alone */
    double *ended_return;  /* [E][T]: of the episode that the step ended, else 0 */
    int64_t *ended_steps;  /* [E][T]: likewise */
};

/* Begins a collect: starts the envs that never were, and makes each env's observation its first
 * frames. */
int hd_pixel_pong_begin_cuda(const struct hd_pixel_pong_envs *envs,
                             const struct hd_pixel_pong_steps *steps, void *stream);

/* Plays step t of all envs, a host scalar: shows the frames, moves the observations on, counts, and
 * starts the next episode where one ended, whose first frame follows the last one's final frame. */
int hd_pixel_pong_play_cuda(const struct hd_pixel_pong_envs *envs,
                            const struct hd_pixel_pong_steps *steps, int64_t t, void *stream);

/* The same on the host, where all pointers are the host's: the same bytes. Alignment is any. */
void hd_pixel_pong_begin(const struct hd_pixel_pong_envs *envs,
                         const struct hd_pixel_pong_steps *steps);
void hd_pixel_pong_play(const struct hd_pixel_pong_envs *envs,
                        const struct hd_pixel_pong_steps *steps, int64_t t);

#endif
