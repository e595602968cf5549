/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/classic/classic_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers beyond physics->states stay zero. */
struct state {
    double numbers[HD_CLASSIC_STATES];
    int64_t steps;
};

struct group {
    const struct hd_classic *physics;
    int64_t envs;
    struct state states[];
};

int hd_classic_create(const struct hd_classic *physics, const struct hd_env_settings *settings,
                      struct hd_env_spec *spec_p, void **group_p, char message[HD_ENV_MESSAGE])
{
    if (settings->n_options > 0 || settings->env_id[0]) {
        snprintf(message, HD_ENV_MESSAGE, "it takes no env_id and no such option, found '%.60s'",
                 settings->env_id[0] ? settings->env_id : settings->options[0].name);
        return -1;
    }
    struct group *group = calloc(1, sizeof *group + (size_t)settings->envs * sizeof(struct state));
    if (!group) {
        snprintf(message, HD_ENV_MESSAGE, "out of memory");
        return -1;
    }
    group->physics = physics;
    group->envs = settings->envs;
    *spec_p = (struct hd_env_spec){.element = HD_ENV_F32,
                                   .dims = 1,
                                   .shape = {physics->shown},
                                   .actions = physics->actions,
                                   .render_height = HD_CLASSIC_HEIGHT,
                                   .render_width = HD_CLASSIC_WIDTH};
    *group_p = group;
    return 0;
}

void hd_classic_destroy(void *group)
{
    free(group);
}

int hd_classic_reset(void *memory, int64_t env, uint64_t seed, void *obs,
                     char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    struct hd_pcg64 rng = hd_pcg64_make(seed);
    group->states[env] = (struct state){0};
    group->physics->start(&rng, group->states[env].numbers);
    group->physics->observe(group->states[env].numbers, obs);
    return 0;
}

int hd_classic_step(void *memory, const void *action, const struct hd_env_outcome *outcome,
                    char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    const struct hd_classic *physics = group->physics;
    for (int64_t i = 0; i < group->envs; i++) {
        struct state *state = &group->states[i];
        double reward;
        const bool terminal = physics->step(state->numbers, (const int32_t *)action + i, &reward);
        const bool late = ++state->steps >= physics->max_steps;
        physics->observe(state->numbers, (float *)outcome->obs + i * physics->shown);
        outcome->reward[i] = (float)reward;
        outcome->done[i] = terminal || late;
        outcome->truncated[i] = late && !terminal;
    }
    return 0;
}

/* -- States ------------------------------------------------------------------------------------ */

int64_t hd_classic_get_state_bytes(const void *group)
{
    const int states = ((const struct group *)group)->physics->states;
    return (int64_t)sizeof(int64_t) + states * (int64_t)sizeof(double);
}

int hd_classic_save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    (void)message;
    const struct group *group = memory;
    const struct state *from = &group->states[env];
    const size_t bytes = (size_t)group->physics->states * sizeof *from->numbers;
    memcpy(state, from->numbers, bytes);
    memcpy((char *)state + bytes, &from->steps, sizeof from->steps);
    return 0;
}

int hd_classic_load(void *memory, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    struct state saved = {0};
    const size_t bytes = (size_t)group->physics->states * sizeof *saved.numbers;
    memcpy(saved.numbers, state, bytes);
    memcpy(&saved.steps, (const char *)state + bytes, sizeof saved.steps);
    if (saved.steps < 0 || saved.steps > group->physics->max_steps) {
        snprintf(message, HD_ENV_MESSAGE, "a state of %lld steps", (long long)saved.steps);
        return -1;
    }
    for (int i = 0; i < group->physics->states; i++)
        if (!isfinite(saved.numbers[i])) {
            snprintf(message, HD_ENV_MESSAGE, "a state of %g", saved.numbers[i]);
            return -1;
        }
    group->states[env] = saved;
    return 0;
}

int hd_classic_render(const void *memory, int64_t env, uint8_t *rgb, char message[HD_ENV_MESSAGE])
{
    (void)message;
    const struct group *group = memory;
    const struct hd_canvas canvas = {.rgb = rgb,
                                     .height = HD_CLASSIC_HEIGHT,
                                     .width = HD_CLASSIC_WIDTH,
                                     .scale = group->physics->scale};
    hd_canvas_clear(&canvas);
    group->physics->draw(group->states[env].numbers, &canvas);
    return 0;
}

/* The volatile exponent keeps the compiler from replacing pow by a product. */
double hd_classic_square(double x)
{
    volatile double two = 2.0;
    return pow(x, two);
}
