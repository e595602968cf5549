/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of pixel_pong envs as an on-policy collect steps them, on a GPU or, with the same bytes,
 * on the host. Thread safe on different memory; the functions for GPUs only launch kernels on
 * `stream` and return HD_OK or HD_ERR_DEVICE (logged). Host scalars are fixed in a captured
 * graph. */
#ifndef HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_ENVS_H
#define HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_ENVS_H

#include "kernels/envs/pixel_pong/pixel_pong_game.h"

#include <stdbool.h>

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
