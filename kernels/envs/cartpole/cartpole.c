/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/cartpole/cartpole.h"

#include "kernels/envs/cartpole/pcg64.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double gravity = 9.8, mass_pole = 0.1, total_mass = 1.1, half_length = 0.5;
static const double pole_moment = 0.05; /* mass of the pole times half its length */
static const double push = 10.0, seconds_per_step = 0.02;
static const double x_limit = 2.4, theta_limit = 12 * 2 * M_PI / 360;

/* A group: this header, then x[envs], x_dot[envs], theta[envs], theta_dot[envs], steps[envs]. */
struct group {
    int64_t envs;
    double x[];
};

struct state {
    double column[HD_CARTPOLE_STATES];
    int64_t steps;
};

static double *column(struct group *group, int64_t i)
{
    return group->x + i * group->envs;
}

static int64_t *steps_of(struct group *group)
{
    return (int64_t *)column(group, HD_CARTPOLE_STATES);
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    if (settings->n_options > 0 || settings->env_id[0]) {
        snprintf(message, HD_ENV_MESSAGE, "it takes no env_id and no options, found '%.60s'",
                 settings->env_id[0] ? settings->env_id : settings->options[0].name);
        return -1;
    }
    struct group *group = calloc(1, sizeof *group + (size_t)settings->envs * sizeof(struct state));
    if (!group) {
        snprintf(message, HD_ENV_MESSAGE, "out of memory");
        return -1;
    }
    group->envs = settings->envs;
    *spec_p = (struct hd_env_spec){
        .element = HD_ENV_F32, .dims = 1, .shape = {HD_CARTPOLE_STATES}, .actions = 2};
    *group_p = group;
    return 0;
}

static int64_t state_bytes(const void *group)
{
    (void)group;
    return sizeof(struct state);
}

static int save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct state saved = {.steps = steps_of((struct group *)memory)[env]};
    hd_cartpole_get_state(memory, env, saved.column);
    memcpy(state, &saved, sizeof saved);
    return 0;
}

static int load(void *memory, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    struct state saved;
    memcpy(&saved, state, sizeof saved);
    if (saved.steps < 0 || saved.steps > HD_CARTPOLE_MAX_STEPS) {
        snprintf(message, HD_ENV_MESSAGE, "a state of %lld steps", (long long)saved.steps);
        return -1;
    }
    for (int i = 0; i < HD_CARTPOLE_STATES; i++)
        if (!isfinite(saved.column[i])) {
            snprintf(message, HD_ENV_MESSAGE, "a state of %g", saved.column[i]);
            return -1;
        }
    for (int i = 0; i < HD_CARTPOLE_STATES; i++)
        column(memory, i)[env] = saved.column[i];
    steps_of(memory)[env] = saved.steps;
    return 0;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *frame,
                 char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    float *obs = frame;
    struct hd_pcg64 rng = hd_pcg64_make(seed);
    for (int i = 0; i < HD_CARTPOLE_STATES; i++) {
        double *state = &column(group, i)[env];
        *state = hd_pcg64_uniform(&rng, -0.05, 0.05);
        obs[i] = (float)*state;
    }
    steps_of(group)[env] = 0;
    return 0;
}

/* Python's x ** 2 is the C library's pow, whose last bit sometimes differs from x * x. The volatile
 * exponent keeps the compiler from replacing one by the other. */
static double square(double x)
{
    volatile double two = 2.0;
    return pow(x, two);
}

static int step(void *memory, const int32_t *action, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    double *x = column(group, 0), *x_dot = column(group, 1);
    double *theta = column(group, 2), *theta_dot = column(group, 3);
    int64_t *steps = steps_of(group);
    for (int64_t i = 0; i < group->envs; i++) {
        double force = action[i] == 1 ? push : -push;
        double cosine = cos(theta[i]), sine = sin(theta[i]);
        double temp = (force + pole_moment * square(theta_dot[i]) * sine) / total_mass;
        double theta_acc = (gravity * sine - cosine * temp) /
                           (half_length * (4.0 / 3.0 - mass_pole * square(cosine) / total_mass));
        double x_acc = temp - pole_moment * theta_acc * cosine / total_mass;
        x[i] += seconds_per_step * x_dot[i];
        x_dot[i] += seconds_per_step * x_acc;
        theta[i] += seconds_per_step * theta_dot[i];
        theta_dot[i] += seconds_per_step * theta_acc;
        steps[i]++;

        bool fallen =
            x[i] < -x_limit || x[i] > x_limit || theta[i] < -theta_limit || theta[i] > theta_limit;
        bool late = steps[i] >= HD_CARTPOLE_MAX_STEPS;
        float *obs = (float *)outcome->obs + i * HD_CARTPOLE_STATES;
        obs[0] = (float)x[i];
        obs[1] = (float)x_dot[i];
        obs[2] = (float)theta[i];
        obs[3] = (float)theta_dot[i];
        outcome->reward[i] = 1;
        outcome->done[i] = fallen || late;
        outcome->truncated[i] = late && !fallen;
    }
    return 0;
}

void hd_cartpole_get_state(const void *memory, int64_t env, double state[HD_CARTPOLE_STATES])
{
    const struct group *group = memory;
    for (int i = 0; i < HD_CARTPOLE_STATES; i++)
        state[i] = group->x[i * group->envs + env];
}

const struct hd_env hd_env_cartpole = {
    .abi = HD_ENV_ABI,
    .name = "cartpole",
    .create = create,
    .destroy = free,
    .reset = reset,
    .step = step,
    .state_bytes = state_bytes,
    .save = save,
    .load = load,
};
