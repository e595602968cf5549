/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in for tests: an env whose every frame differs from every other, with short episodes of
 * many lengths. Options: `longest` episode (7), `floats: true` for frames of 2 x 2 floats instead
 * of 36 x 40 bytes, `fail_step: n` to fail at the n-th step of an episode, `fail_reset: n` to fail
 * at the n-th reset of an env, `fail_save: true` to fail at each save, `several: true` for actions
 * of two choices, of 3 and 2, and `reals: true` for actions of two real numbers. A step that is
 * begun is over when it has been looked at a few times. */
#include "kernels/envs/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACTIONS = 3,
    ACTION_DIMS_MAX = 2,
    HEIGHT = 36,
    WIDTH = 40,
    BYTES = HEIGHT * WIDTH,
    FLOATS = 4
};

struct blink {
    uint64_t seed;
    int64_t step, resets;
};

struct group {
    int64_t envs, longest, fail_step, fail_reset;
    bool floats, several, reals, fail_save;
    int looks;
    char *action; /* behind the lamps: of the step that is begun */
    struct blink blinks[];
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9E3779B97F4A7C15u + b + 1;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void show(const struct group *group, int64_t env, void *obs)
{
    const struct blink *blink = &group->blinks[env];
    uint64_t draw = mix(blink->seed, (uint64_t)blink->step);
    for (int i = 0; i < (group->floats ? FLOATS : BYTES); i++) {
        draw = mix(draw, (uint64_t)i);
        if (group->floats)
            ((float *)obs)[i] = (float)(draw >> 40) / 16777216;
        else
            ((unsigned char *)obs)[i] = (unsigned char)draw;
    }
}

static int read_option(struct group *group, const struct hd_env_option *option)
{
    const char *const names[] = {"longest", "fail_step", "fail_reset"};
    int64_t *const numbers[] = {&group->longest, &group->fail_step, &group->fail_reset};
    for (int i = 0; i < 3; i++)
        if (strcmp(option->name, names[i]) == 0) {
            *numbers[i] = atoll(option->value);
            return 0;
        }
    const char *const flags[] = {"floats", "several", "reals", "fail_save"};
    bool *const places[] = {&group->floats, &group->several, &group->reals, &group->fail_save};
    for (int i = 0; i < 4; i++)
        if (strcmp(option->name, flags[i]) == 0) {
            *places[i] = strcmp(option->value, "true") == 0;
            return 0;
        }
    return -1;
}

static struct hd_env_actions describe_actions(const struct group *group)
{
    if (group->reals)
        return (struct hd_env_actions){
            .kind = HD_ENV_BOX, .dims = 2, .low = {-1, -1}, .high = {1, 1}};
    if (group->several)
        return (struct hd_env_actions){.kind = HD_ENV_MULTI_DISCRETE, .dims = 2, .n = {ACTIONS, 2}};
    return (struct hd_env_actions){.kind = HD_ENV_DISCRETE, .dims = 1, .n = {ACTIONS}};
}

/* Returns a number that depends on each number of an env's action. */
static float add_action(const struct group *group, const void *actions, int64_t env)
{
    const float *real = (const float *)actions + 2 * env;
    const int32_t *choice = (const int32_t *)actions + (group->several ? 2 : 1) * env;
    if (group->reals)
        return real[0] - real[1] / 2;
    return (float)choice[0] + (group->several ? 4 * (float)choice[1] : 0);
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    const size_t envs = (size_t)settings->envs;
    struct group *group =
        calloc(1, sizeof *group + envs * (sizeof(struct blink) + ACTION_DIMS_MAX * sizeof(float)));
    if (!group) {
        snprintf(message, HD_ENV_MESSAGE, "no memory");
        return -1;
    }
    group->envs = settings->envs;
    group->action = (char *)&group->blinks[envs];
    group->longest = 7;
    for (int i = 0; i < settings->n_options; i++)
        if (read_option(group, &settings->options[i]) != 0) {
            snprintf(message, HD_ENV_MESSAGE, "blink has no option %s", settings->options[i].name);
            free(group);
            return -1;
        }
    *spec_p = (struct hd_env_spec){
        .element = group->floats ? HD_ENV_F32 : HD_ENV_U8,
        .dims = 2,
        .shape = {group->floats ? 2 : HEIGHT, group->floats ? 2 : WIDTH},
        .actions = describe_actions(group),
    };
    *group_p = group;
    return 0;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    struct blink *blink = &group->blinks[env];
    blink->seed = seed;
    blink->step = 0;
    if (++blink->resets == group->fail_reset) {
        snprintf(message, HD_ENV_MESSAGE, "the lamp is out");
        return -1;
    }
    show(group, env, obs);
    return 0;
}

static int step(void *memory, const void *actions, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    for (int64_t i = 0; i < group->envs; i++) {
        struct blink *blink = &group->blinks[i];
        int64_t length = 1 + (int64_t)(mix(blink->seed, 77) % (uint64_t)group->longest);
        if (++blink->step == group->fail_step) {
            snprintf(message, HD_ENV_MESSAGE, "the lamp of env %lld broke", (long long)i);
            return -1;
        }
        show(group, i, (char *)outcome->obs + i * (group->floats ? FLOATS * 4 : BYTES));
        outcome->reward[i] = (float)((int64_t)(mix(blink->seed, (uint64_t)blink->step) % 5) - 2) +
                             add_action(group, actions, i) / 4;
        outcome->done[i] = blink->step == length;
        outcome->truncated[i] = false;
    }
    return 0;
}

static int begin_step(void *memory, const void *actions, char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    const int64_t dims = group->reals || group->several ? ACTION_DIMS_MAX : 1;
    memcpy(group->action, actions, (size_t)(group->envs * dims) * sizeof(float));
    group->looks = 0;
    return 0;
}

static bool await_step(void *memory, double seconds)
{
    enum { LOOKS = 3 };
    (void)seconds;
    return ++((struct group *)memory)->looks >= LOOKS;
}

static int end_step(void *memory, const struct hd_env_outcome *outcome,
                    char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    return step(group, group->action, outcome, message);
}

static int64_t state_bytes(const void *group)
{
    (void)group;
    return sizeof(struct blink);
}

static int save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    const struct group *group = memory;
    memcpy(state, &group->blinks[env], sizeof(struct blink));
    if (group->fail_save)
        snprintf(message, HD_ENV_MESSAGE, "the lamp cannot be moved");
    return group->fail_save ? -1 : 0;
}

static int load(void *memory, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    (void)message;
    memcpy(&((struct group *)memory)->blinks[env], state, sizeof(struct blink));
    return 0;
}

static const struct hd_env blink = {
    .abi = HD_ENV_ABI,
    .name = "blink",
    .create = create,
    .destroy = free,
    .reset = reset,
    .step = step,
    .state_bytes = state_bytes,
    .save = save,
    .load = load,
    .begin_step = begin_step,
    .await_step = await_step,
    .end_step = end_step,
};

const struct hd_env *hd_env_plugin(void)
{
    return &blink;
}
