/* SPDX-License-Identifier: Apache-2.0 */
/* An environment of your own, to copy and change: a corridor of cells, left (action 0) or right
 * (action 1), with a reward at its right end. kernels/envs/env.h says what each function owes.
 *
 * Build:  cc -O2 -shared -fPIC -I HEDDLE -o heddle_env_corridor.so corridor.c
 * where HEDDLE is the folder that holds kernels/. Then set HEDDLE_PLUGINS to the folder of
 * heddle_env_corridor.so and train with
 *
 *     env: {type: corridor, options: {cells: 9}}
 *     policy: {model: {obs_shape: 9, action_shape: 2}}
 */
#include "kernels/envs/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    int64_t cell, steps;
};

struct group {
    int64_t envs, cells;
    struct walk walks[];
};

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    int64_t cells = 9;
    for (int i = 0; i < settings->n_options; i++)
        if (strcmp(settings->options[i].name, "cells") == 0)
            cells = atoll(settings->options[i].value);
        else
            cells = 0;
    struct group *group = calloc(1, sizeof *group + settings->envs * sizeof(struct walk));
    if (!group || cells < 3 || cells > 1000) {
        snprintf(message, HD_ENV_MESSAGE, "the only option is `cells`, from 3 to 1000");
        free(group);
        return -1;
    }
    group->envs = settings->envs;
    group->cells = cells;
    *spec_p = (struct hd_env_spec){HD_ENV_F32, .dims = 1, .shape = {cells},
                                   .actions = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {2}}};
    *group_p = group;
    return 0;
}

/* Shows a 1 where the walker is. */
static void show(const struct group *group, int64_t env, float *obs)
{
    memset(obs, 0, group->cells * sizeof *obs);
    obs[group->walks[env].cell] = 1;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    group->walks[env] = (struct walk){.cell = 1 + seed % (group->cells - 2)};
    show(group, env, obs);
    return 0;
}

static int step(void *memory, const void *actions, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    const int32_t *action = actions;
    for (int64_t i = 0; i < group->envs; i++) {
        struct walk *walk = &group->walks[i];
        if (walk->cell <= 0 || walk->cell >= group->cells - 1) {
            snprintf(message, HD_ENV_MESSAGE, "walker %lld is at an end: it must be reset first",
                     (long long)i);
            return -1;
        }
        walk->cell += action[i] == 1 ? 1 : -1;
        bool right = walk->cell == group->cells - 1, left = walk->cell == 0;
        bool late = ++walk->steps == 4 * group->cells;
        outcome->reward[i] = right ? 1 : 0;
        outcome->done[i] = left || right || late;
        outcome->truncated[i] = late && !left && !right;
        show(group, i, (float *)outcome->obs + i * group->cells);
    }
    return 0;
}

static int64_t state_bytes(const void *group)
{
    return sizeof(struct walk);
}

static int save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    memcpy(state, &((const struct group *)memory)->walks[env], sizeof(struct walk));
    return 0;
}

static int load(void *memory, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    struct walk walk;
    memcpy(&walk, state, sizeof walk);
    if (walk.cell < 0 || walk.cell >= group->cells || walk.steps < 0 ||
        walk.steps > 4 * group->cells) {
        snprintf(message, HD_ENV_MESSAGE, "walker %lld is at cell %lld after %lld steps",
                 (long long)env, (long long)walk.cell, (long long)walk.steps);
        return -1;
    }
    group->walks[env] = walk;
    return 0;
}

const struct hd_env *hd_env_plugin(void)
{
    static const struct hd_env corridor = {
        .abi = HD_ENV_ABI,
        .name = "corridor",
        .create = create,
        .destroy = free,
        .reset = reset,
        .step = step,
        .state_bytes = state_bytes,
        .save = save,
        .load = load,
    };
    return &corridor;
}
