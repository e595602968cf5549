/* SPDX-License-Identifier: Apache-2.0 */
/* Type `envs`: a group of envs with what a collector or evaluator remembers about them between its
 * steps. `role: collector` has env.collector_env_num envs in policy.collect.env_groups groups,
 * which the first collect starts with seeds of their own; `role: evaluator` has
 * env.evaluator_env_num, which each evaluation starts anew. Those of an evaluator with one instance
 * per shard are spread over the shards. */
#ifndef HD_TASKS_TYPES_COLLECT_ENVS_H
#define HD_TASKS_TYPES_COLLECT_ENVS_H

#include "kernels/envs/find.h"
#include "kernels/envs/seed.h"
#include "tasks/registry.h"
#include "tasks/types/collect/obs.h"

extern const struct hd_type hd_type_envs;

struct hd_envs_shape {
    const struct hd_env *env;
    struct hd_env_spec frame;        /* what one env shows at a time */
    struct hd_env_settings settings; /* its texts are the config's */
    bool evaluator;
    int64_t groups;    /* groups that are played independently, each a group of the instance */
    int64_t envs;      /* E: rows of a group */
    int64_t total;     /* envs of all instances that share them */
    int64_t instances; /* so many share them: S for a spread evaluator, else 1 */
    int64_t fragment;  /* L: steps of one env that are handed on together; evaluator: 0 */
    struct hd_obs_shape obs;
    int64_t state_bytes; /* of one env, saved */
};

/* The arrays of a group. The first *count envs are there, other rows stay zero. */
struct hd_envs {
    void **group;           /* [1]: made by the env's `create`; NULL where there are no envs */
    int64_t *count;         /* [1]: envs of this instance, at most E */
    double *best_mean;      /* [1]: of all evaluations so far, -inf before the first */
    uint64_t *seed;         /* [E]: of the env's present episode */
    int64_t *episode;       /* [E]: its number, from 0 */
    double *episode_return; /* [E]: so far */
    int64_t *episode_steps; /* [E]: so far */
    int64_t *shown;         /* [E]: frames shown so far, in all episodes; 0: never started */
    int64_t *pending;       /* [E]: steps of the env's unfinished fragment */
    int32_t *action;        /* [E][L]: of the pending steps */
    float *reward;          /* [E][L] */
    char *obs;              /* [E][stack][frame]: the present observations */
};

/* The shape of a value of type envs, and the arrays of a group of one instance. */
const struct hd_envs_shape *hd_envs_get_shape(const struct hd_spec *spec);
struct hd_envs hd_envs_get(const struct hd_spec *spec, void *data, int64_t group);

/* Number of the first env of a group: of shard `shard` among those that share an evaluation, or of
 * group `group` of a collector. */
int64_t hd_envs_get_first(const struct hd_envs_shape *shape, int64_t shard, int64_t group);

/* Starts an episode of env `env` from `env_seed`: its pending steps must have been handed on. Its
 * first frame is written to frame[frame_bytes] and is all of the env's observation. A failure is a
 * sentence in message. */
int hd_envs_start(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                  uint64_t env_seed, void *frame, char message[HD_ENV_MESSAGE]);

/* The env's observation moves on to a frame that it showed. */
void hd_envs_push_frame(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                        const void *frame);

/* For a verb's `prepare`: a mistake when spec is not of the role that the verb needs. */
int hd_envs_check_role(const struct hd_spec *spec, const struct hd_setup *setup, bool evaluator);

#endif
