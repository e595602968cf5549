/* SPDX-License-Identifier: Apache-2.0 */
/* A group of environments that `runner check-env` plays by actions that are a function of env and
 * step, so that several groups can be compared. One thread at a time. */
#pragma once

#include "kernels/envs/env.h"
#include "runtime/base/hash.h"

/* An environment, as all groups have it. */
struct hd_env_kind {
    const struct hd_env *env;
    struct hd_env_settings settings;
    struct hd_env_spec spec;
    int64_t agents;      /* of a parallel env, else 1 */
    int64_t frame_bytes; /* of an observation of one env */
    int64_t state_bytes; /* of a saved state of one env */
    uint64_t seed;       /* from which those of all episodes follow, of 64 bits as in a run */
};

/* The present episode of an env, or of a parallel env. */
struct hd_env_played {
    int64_t number;  /* of the env among all that are compared: groups may have a part of them */
    int64_t episode; /* from 0 */
    int64_t steps;
    uint64_t trace; /* hash of all that it showed in this episode, */
    uint64_t total; /* in all episodes */
};

struct hd_env_group {
    const struct hd_env_kind *kind;
    void *group;
    int64_t envs;                   /* parallel envs, or envs */
    struct hd_env_played *played;   /* [envs] */
    char *obs, *action;             /* [envs * agents] */
    float *reward;                  /* [envs * agents] */
    bool *done, *truncated;         /* [envs * agents] */
    int64_t episodes;               /* that ended */
    double returns;                 /* of these, added */
    char fault[2 * HD_ENV_MESSAGE]; /* why a function below failed */
};

/* Makes a group of envs first … first + envs - 1, which hd_env_group_close releases, after an error
 * too; it accepts a group of zeros. Returns HD_OK, or HD_ERR_TASK with the cause in group->fault
 * (not logged). */
int hd_env_group_open(const struct hd_env_kind *kind, int64_t first, int64_t envs,
                      struct hd_env_group *group_p);
void hd_env_group_close(struct hd_env_group *group);

/* Start episode `episode` of env i of the group; step all envs, check what they return, and start
 * the next episode of those that ended one, unless `again` is false: such an env may then not be
 * stepped. Errors: as above. */
int hd_env_group_start(struct hd_env_group *group, int64_t i, int64_t episode);
int hd_env_group_step(struct hd_env_group *group, bool again);

/* Saves an env of a group and loads it into env j of another. Errors: as above, in to->fault. */
int hd_env_group_copy(struct hd_env_group *from, int64_t i, struct hd_env_group *to, int64_t j);

/* Returns whether each env of `part` has shown what the env of its number in `whole` has. */
bool hd_env_group_is_part(const struct hd_env_group *part, const struct hd_env_group *whole);
