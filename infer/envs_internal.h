/* SPDX-License-Identifier: Apache-2.0 */
/* Environments side by side, as infer/envs.c steps them. For one thread at a time. */
#pragma once

#include "infer/infer.h"
#include "kernels/envs/actions.h"

/* One environment, and which episode it plays. */
struct hd_one_env {
    void *group;
    uint64_t seed;   /* that it was reset with */
    int64_t episode; /* number of the present episode since then, from 0 */
    int64_t steps;   /* of the present episode */
    bool seeded, started, ended;
};

struct heddle_envs {
    const struct hd_env *env;
    struct hd_env_spec frame;
    struct heddle_envs_spec spec;
    struct heddle_obs_parts parts;
    int64_t frame_bytes, obs_bytes;
    int64_t max_steps;              /* of an episode; 0: as many as the environments allow */
    struct hd_one_env *ones;        /* [envs] */
    char *obs;                      /* [envs][stack][frame], oldest first */
    char *shown;                    /* [frame] */
    union hd_action_number *action; /* [envs][dims] */
};
