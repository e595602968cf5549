/* SPDX-License-Identifier: Apache-2.0 */
/* Environments, in groups that step together. A group is one block of plain memory without pointers
 * into itself: copying its bytes is a snapshot, writing them out saves it. Arrays run over the
 * group's envs first. Nothing resets by itself: a step that ends an episode still shows the final
 * observation, and the caller resets that env before it steps the group again. Functions are thread
 * safe on different groups. */
#ifndef HD_KERNELS_ENVS_ENV_H
#define HD_KERNELS_ENVS_ENV_H

#include <stdbool.h>
#include <stdint.h>

/* What a step shows of each env; the arrays are the caller's. */
struct hd_env_outcome {
    float *obs;      /* [envs][obs_size], after the step */
    float *reward;   /* [envs] */
    bool *done;      /* [envs]: the episode ended, whatever the reason */
    bool *truncated; /* [envs]: done by a time limit alone, not by a terminal state */
};

struct hd_env {
    const char *name;
    int64_t obs_size; /* floats of one observation */
    int64_t actions;  /* actions are 0 … actions - 1 */
    int64_t (*bytes)(int64_t envs);
    /* Makes a group of `envs` envs in zeroed memory of that many bytes, 8-byte aligned. Each env
     * must be reset before the first step. */
    void (*init)(void *group, int64_t envs);
    /* Starts an episode of env `env`, a function of `seed` alone; obs[obs_size] is its start. */
    void (*reset)(void *group, int64_t env, uint64_t seed, float *obs);
    /* Steps every env by action[envs]. */
    void (*step)(void *group, const int32_t *action, struct hd_env_outcome outcome);
};

/* A built-in env by name ("cartpole"), or NULL. */
const struct hd_env *hd_env_find(const char *name);

#endif
