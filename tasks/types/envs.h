/* SPDX-License-Identifier: Apache-2.0 */
/* Type `envs`: a group of envs with what a collector or evaluator remembers about them between its
 * steps. `role: collector` has env.collector_env_num envs, started with seeds of their own;
 * `role: evaluator` has env.evaluator_env_num, which each evaluation starts anew. */
#ifndef HD_TASKS_TYPES_ENVS_H
#define HD_TASKS_TYPES_ENVS_H

#include "kernels/envs/find.h"
#include "tasks/registry.h"

extern const struct hd_type hd_type_envs;

struct hd_envs_shape {
    const struct hd_env *env;
    struct hd_env_spec frame;
    struct hd_env_settings settings; /* its texts are the config's */
    bool evaluator;
    int64_t envs;        /* E */
    int64_t chunk;       /* L: steps of one env that are handed on together; evaluator: 0 */
    int64_t obs_size;    /* floats of an observation */
    int64_t state_bytes; /* of one env, saved */
};

/* The arrays of an instance. */
struct hd_envs {
    void **group;           /* [1]: made by the env's `create` */
    double *best_mean;      /* [1]: of all evaluations so far, -inf before the first */
    int64_t *episode;       /* [E]: number of the env's present episode, from 0 */
    double *episode_return; /* [E]: of the present episode so far */
    int64_t *episode_steps; /* [E] */
    int64_t *pending;       /* [E]: steps of the env's unfinished chunk */
    float *obs;             /* [E][L + 1][obs_size]: of the pending steps, then the present one */
    int32_t *action;        /* [E][L] */
    float *reward;          /* [E][L] */
};

/* The shape of a value of type envs, and the arrays of one instance. */
const struct hd_envs_shape *hd_envs_shape(const struct hd_spec *spec);
struct hd_envs hd_envs_at(const struct hd_spec *spec, void *data);

/* Copies the present observations to obs[E][obs_size]. */
void hd_envs_present(const struct hd_envs_shape *shape, const struct hd_envs *envs, float *obs);

/* Starts an episode of env `env` from `env_seed`: its pending steps must have been handed on. A
 * failure is a sentence in message. */
int hd_envs_start(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                  uint64_t env_seed, char message[HD_ENV_MESSAGE]);

/* The seed of a collector's episode, from the run's seed. Each (shard, env, episode) has its own
 * and no iteration enters; DI-engine seeds every rank alike (spec 6.7), which collects the same
 * data several times. */
uint64_t hd_envs_seed(uint64_t seed, int64_t shard, int64_t env, int64_t episode);

/* For a verb's `prepare`: a mistake when spec is not of the role that the verb needs. */
int hd_envs_check_role(const struct hd_spec *spec, const struct hd_setup *setup, bool evaluator);

#endif
