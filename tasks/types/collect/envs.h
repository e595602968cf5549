/* SPDX-License-Identifier: Apache-2.0 */
/* Type `envs`: environments, with what a collector or evaluator remembers of them between steps.
 * With `role: collector` an instance has env.collector_env_num envs in policy.collect.env_groups
 * groups, which the first collect starts. With `role: evaluator` there are env.evaluator_env_num in
 * all, each a group, distributed over the shards if there is an instance for each, and every
 * evaluation starts them again. Of parallel envs (hd_env_spec.agents) a collector counts the
 * agents; an evaluator counts the parallel envs, each of which is a group of its agents. Thread
 * safe for different groups. */
#pragma once

#include "kernels/envs/actions.h"
#include "kernels/envs/env_gpu.h"
#include "kernels/envs/find/find.h"
#include "kernels/envs/seed.h"
#include "tasks/base/registry.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/outputs.h"

extern const struct hd_type hd_type_envs;

struct hd_envs_shape {
    const struct hd_env *env;
    char about[HD_ENV_MESSAGE];      /* hd_env_describe */
    struct hd_env_spec frame;        /* what one env shows at a step */
    struct hd_env_settings settings; /* texts are borrowed from the config */
    bool evaluator;
    bool on_gpu;       /* GPUs can step these envs: those of a collector, in one group */
    int64_t groups;    /* environment groups of an instance, each a partial of the value */
    int64_t envs;      /* E: rows of a group */
    int64_t total;     /* env.collector_env_num or env.evaluator_env_num */
    int64_t instances; /* over which envs are distributed: S for a sharded evaluation, else 1 */
    int64_t fragment;  /* L: most steps of a fragment; evaluator: 0 */
    int64_t surplus;   /* most samples that wait for the next collect; 0: they are dropped */
    int64_t nstep;     /* rewards of a sample */
    struct hd_obs_shape obs;
    const struct hd_outputs *outputs; /* from which the policy's actions come */
    int64_t state;                    /* floats of a recurrent net's state; 0: the net has none */
    int64_t state_bytes;              /* of the saved state of one env */
    bool follows_returns;             /* a collector's, with policy.collect.normalize_reward */
};

/* The moments of discounted returns in a group's last collect. */
struct hd_env_returns {
    double count, mean, squares;
};

/* The arrays of a group. It has *count envs; those of a group without envs stay zero. */
struct hd_envs {
    int64_t *count;         /* [1]: E, or 0 where a shard has fewer envs than others */
    double *best_mean;      /* [1]: group 0: best mean of all evaluations; -inf before the first */
    int64_t *best_update;   /* [1]: group 0: updates made by then */
    uint64_t *seed;         /* [E]: of the env's current episode */
    int64_t *episode;       /* [E]: number of that episode, from 0 */
    double *episode_return; /* [E]: so far */
    int64_t *episode_steps; /* [E]: so far */
    int64_t *shown;         /* [E]: frames so far, in all episodes; 0: never started */
    int64_t *pending;       /* [E]: steps of the env's unfinished fragment */
    union hd_action_number *action; /* [E][L][dims]: of pending steps */
    float *reward;                  /* [E][L] */
    int64_t *n_surplus;             /* [1]; this and the next only with shape.surplus */
    void *surplus;                  /* [shape.surplus]: samples of complete fragments, the oldest
                                       first (hd_transition_get) */
    double *discounted;             /* [E]: return of the episode so far, discounted from its end;
                                       this and the next only with
                                       follows_returns */
    struct hd_env_returns *returns; /* [1] */
    char *obs;                      /* [E][stack][frame_bytes]: current observations */
    float *state;                   /* [E][state]: the policy's, before it sees them */
    void *games;  /* shape.on_gpu: the envs as bytes for a GPU, as new as what was last
                     loaded or came from one */
    void **group; /* [1]: made by the env's `create`; NULL where there are no envs */
};

/* Return the shape of a value of type envs, and the arrays of a group of an instance. */
const struct hd_envs_shape *hd_envs_get_shape(const struct hd_spec *spec);
struct hd_envs hd_envs_get(const struct hd_spec *spec, void *data, int64_t group);

/* Returns the arrays of an instance of shape.on_gpu, on a GPU, in a run of seed `seed`. */
struct hd_env_gpu_envs hd_envs_get_on_gpu(const struct hd_spec *spec, void *data, uint64_t seed,
                                          int64_t shard);

/* Makes, in host memory, a group of envs for a GPU that were never started. The env has operations
 * for GPUs. */
void hd_envs_init_games(const struct hd_envs_shape *shape, int64_t envs, void *games);

/* Returns the number of the first env of group `group` of shard `shard`: among the instance's, or,
 * of a sharded evaluation, among all envs; of parallel envs the agents count. */
int64_t hd_envs_get_first(const struct hd_envs_shape *shape, int64_t shard, int64_t group);

/* Starts an episode of env `env`, which has no pending steps, from `env_seed`. Writes its first
 * frame to frame[frame_bytes]; the env's observation is this frame, repeated. Returns HD_OK, or
 * HD_ERR_TASK with a sentence in `message` (not logged). */
int hd_envs_start(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                  uint64_t env_seed, void *frame, char message[HD_ENV_MESSAGE]);

/* Returns whether all numbers of a frame are finite; bytes always are. */
bool hd_envs_is_frame_finite(const struct hd_envs_shape *shape, const void *frame);

/* Appends a frame to the observation of env `env`, which drops its oldest one. */
void hd_envs_push_frame(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                        const void *frame);

/* Checks, from a verb's `prepare`, that `spec` has the role that the verb needs. Returns HD_OK, or
 * HD_ERR_INPUT (in setup->diag). */
int hd_envs_check_role(const struct hd_spec *spec, const struct hd_setup *setup, bool evaluator);
