/* SPDX-License-Identifier: Apache-2.0 */
/* Envs that a GPU steps: what `gpu` of struct hd_env points to. It is for envs of discrete actions
 * whose frames are bytes. From the same seeds and actions they show the same bytes as on a CPU.
 *
 * A group for a GPU is plain bytes without pointers, made on the host and copied to the device.
 * Functions that take a stream only launch kernels there: they allocate nothing, wait for nothing,
 * and return HD_OK or HD_ERR_DEVICE (logged). Pointers in the structures below are to device
 * memory, arrays do not overlap, and host scalars are fixed in a captured CUDA graph. Thread safe
 * on different memory. */
#pragma once

#include "kernels/envs/env.h"
#include "kernels/envs/played.h"

/* Envs with what a collect keeps between steps, all zeros before the first
 * (tasks/types/collect/envs.h). Episode n of env e starts from hd_env_get_seed(seed, shard, first +
 * e, n). */
struct hd_env_gpu_envs {
    int64_t envs, stack;    /* E; frames of an observation */
    uint64_t seed;          /* seed of the run */
    int64_t shard, first;   /* number of the first env in the shard */
    void *group;            /* group of E envs */
    uint64_t *episode_seed; /* [E]: seed of the present episode */
    int64_t *episode;       /* [E]: number of the present episode, from 0 */
    double *episode_return; /* [E]: return so far */
    int64_t *episode_steps; /* [E]: steps so far */
    int64_t *shown;         /* [E]: frames shown so far, in all episodes */
    uint8_t *obs;           /* [E][stack][frame]: oldest first, 4-byte aligned */
};

/* The records of the envs' steps (tasks/types/collect/trajectories.h): the frames that each env
 * showed, frame i in slot i % F, and numbers for each step. Step t of env e has index e T + t. */
struct hd_env_gpu_steps {
    int64_t steps, frames; /* T; F >= stack */
    int64_t *shown;        /* [E]: frames so far */
    int64_t *age;          /* [E]: frames of the present observation's episode before the
                              last one, at most stack - 1 */
    uint8_t *frame_data;   /* [E][F][frame], 4-byte aligned */
    const int32_t *action; /* [E][T] */
    int32_t *frame;        /* [E][T]: last frame of the observation acted on */
    int32_t *frame_age;    /* [E][T]: frames of its episode before that frame, at most stack - 1 */
    float *reward, *done;  /* [E][T]; done is 1 or 0 */
    bool *truncated;       /* [E][T]: done by a time limit alone */
    double *ended_return;  /* [E][T]: return of the episode that the step ended, else 0 */
    int64_t *ended_steps;  /* [E][T]: length of that episode, else 0 */
};

/* The envs of an evaluation. An env that has played all its episodes rests. */
struct hd_env_gpu_evaluation {
    int64_t envs, stack;  /* E; frames of an observation */
    int64_t max_steps;    /* of an episode */
    void *group;          /* group of E envs */
    uint8_t *obs;         /* [E][stack][frame]: oldest first, 4-byte aligned */
    char *played;         /* [E][played_bytes]: a struct hd_played of each env */
    int64_t played_bytes; /* of one env, a multiple of 8 */
};

struct hd_env_gpu {
    /* Returns the bytes of a group of `envs` envs. */
    int64_t (*get_bytes)(int64_t envs);

    /* Makes a group in host memory, of settings->envs envs that were never reset. The settings are
     * those with which `create` made a group before. */
    void (*init)(const struct hd_env_settings *settings, void *group);

    /* Returns the address of an env's state in a group in any memory: the bytes that `save` of
     * struct hd_env writes. */
    void *(*get_state)(void *group, int64_t env);

    /* Begins a collect: starts the envs that were never started, and makes each env's observation
     * its first frames. */
    int (*begin)(const struct hd_env_gpu_envs *envs, const struct hd_env_gpu_steps *steps,
                 void *stream);

    /* Plays step t, a host scalar, of all envs: shows the frames, appends them to the observations,
     * and counts. Where an episode ends, starts the next one, whose first frame follows the final
     * frame of the last one. */
    int (*play)(const struct hd_env_gpu_envs *envs, const struct hd_env_gpu_steps *steps, int64_t t,
                void *stream);

    /* Starts the first episode of each env of an evaluation that is to play any. */
    int (*begin_evaluation)(const struct hd_env_gpu_evaluation *evaluation, void *stream);

    /* Plays a step of each env that does not rest by the action of its largest output, of
     * out[E][outputs]; actions come first. Where an episode ends, starts the next one. */
    int (*evaluate)(const struct hd_env_gpu_evaluation *evaluation, const float *out,
                    int64_t outputs, void *stream);
};
