/* SPDX-License-Identifier: Apache-2.0 */
/* The pixel_pong envs of an on-policy collect, stepped on a GPU. Thread safe on different memory;
 * the functions only launch kernels on `stream`. Host scalars are fixed in a captured CUDA graph.
 */
#ifndef HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_ENVS_H
#define HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_ENVS_H

#include "kernels/envs/pixel_pong/pixel_pong_game.h"

#include <stdbool.h>

/* Envs with what a collect keeps between steps, all zeros before the first
 * (tasks/types/collect/envs.h). Episode n of env e starts from hd_env_get_seed(seed, shard, first +
 * e, n). */
struct hd_pixel_pong_envs {
    int64_t envs, stack;    /* E; frames of an observation */
    uint64_t seed;          /* seed of the run */
    int64_t shard, first;   /* number of the first env in the shard */
    void *group;            /* group of E envs */
    uint64_t *episode_seed; /* [E]: seed of the present episode */
    int64_t *episode;       /* [E]: number of the present episode, from 0 */
    double *episode_return; /* [E]: return so far */
    int64_t *episode_steps; /* [E]: steps so far */
    int64_t *shown;         /* [E]: frames shown so far, in all episodes */
    uint8_t *obs;           /* [E][stack][84 * 84]: oldest first, 4-byte aligned */
};

/* The records of the envs' steps (tasks/types/collect/trajectories.h): the frames that each env
 * showed, frame i in slot i % F, and numbers for each step. Step t of env e has index e T + t. */
struct hd_pixel_pong_steps {
    int64_t steps, frames; /* T; F >= stack */
    int64_t *shown;        /* [E]: frames so far */
    int64_t *age;          /* [E]: frames of the present observation's episode before the
                              last one, at most stack - 1 */
    uint8_t *frame_data;   /* [E][F][84 * 84], 4-byte aligned */
    const int32_t *action; /* [E][T] */
    int32_t *frame;        /* [E][T]: last frame of the observation acted on */
    int32_t *frame_age;    /* [E][T]: frames of its episode before that frame, at most stack - 1 */
    float *reward, *done;  /* [E][T]; done is 1 or 0 */
    bool *truncated;       /* [E][T]: done by the limit of screens alone */
    double *ended_return;  /* [E][T]: return of the episode that the step ended, else 0 */
    int64_t *ended_steps;  /* [E][T]: length of that episode, else 0 */
};

/* Begins a collect: starts the envs that were never started, and makes each env's observation its
 * first frames. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_pixel_pong_begin_cuda(const struct hd_pixel_pong_envs *envs,
                             const struct hd_pixel_pong_steps *steps, void *stream);

/* Plays step t, a host scalar, of all envs: shows the frames, appends them to the observations, and
 * counts. Where an episode ends, starts the next one, whose first frame follows the final frame of
 * the last one. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_pixel_pong_play_cuda(const struct hd_pixel_pong_envs *envs,
                            const struct hd_pixel_pong_steps *steps, int64_t t, void *stream);

#endif
