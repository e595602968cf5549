/* SPDX-License-Identifier: Apache-2.0 */
/* CartPole (Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult
 * Learning Control Problems", 1983), stepped by 0.02 s with Euler's method. The state is x (m),
 * x' (m/s), theta (rad), theta' (rad/s). An episode ends when cart or pole leave their range. */
#include "kernels/envs/classic/classic_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X, X_DOT, THETA, THETA_DOT, STATES };

static const double gravity = 9.8, mass_pole = 0.1, total_mass = 1.1, half_length = 0.5;
static const double pole_moment = 0.05; /* mass of the pole times half its length */
static const double push = 10.0, seconds_per_step = 0.02;
static const double x_limit = 2.4, theta_limit = 12 * 2 * M_PI / 360;

static void cartpole_start(struct hd_pcg64 *rng, double *state)
{
    for (int i = 0; i < STATES; i++)
        state[i] = hd_pcg64_uniform(rng, -0.05, 0.05);
}

static void observe(const double *state, float *obs)
{
    for (int i = 0; i < STATES; i++)
        obs[i] = (float)state[i];
}

static void observe_positions(const double *state, float *obs)
{
    obs[0] = (float)state[X];
    obs[1] = (float)state[THETA];
}

static bool cartpole_step(double *s, const void *action, double *reward_p)
{
    const double force = *(const int32_t *)action == 1 ? push : -push;
    const double cosine = cos(s[THETA]), sine = sin(s[THETA]);
    const double temp = (force + pole_moment * hd_classic_square(s[THETA_DOT]) * sine) / total_mass;
    const double theta_acc =
        (gravity * sine - cosine * temp) /
        (half_length * (4.0 / 3.0 - mass_pole * hd_classic_square(cosine) / total_mass));
    const double x_acc = temp - pole_moment * theta_acc * cosine / total_mass;
    s[X] += seconds_per_step * s[X_DOT];
    s[X_DOT] += seconds_per_step * x_acc;
    s[THETA] += seconds_per_step * s[THETA_DOT];
    s[THETA_DOT] += seconds_per_step * theta_acc;
    *reward_p = 1;
    return s[X] < -x_limit || s[X] > x_limit || s[THETA] < -theta_limit || s[THETA] > theta_limit;
}

static void cartpole_draw(const double *s, const struct hd_canvas *canvas)
{
    const double track[2][2] = {{-3, -0.6}, {3, -0.6}};
    const double cart[2][2] = {{s[X] - 0.2, -0.6}, {s[X] + 0.2, -0.6}};
    const double tip[2] = {s[X] + sin(s[THETA]), -0.6 + cos(s[THETA])};
    const double foot[2] = {s[X], -0.6};
    hd_canvas_draw_line(canvas, track[0], track[1], 0.01, (struct hd_canvas_color){0, 0, 0});
    hd_canvas_draw_line(canvas, cart[0], cart[1], 0.12, (struct hd_canvas_color){40, 40, 40});
    hd_canvas_draw_line(canvas, foot, tip, 0.05, (struct hd_canvas_color){202, 152, 101});
}

#define PHYSICS(numbers, observes, most)                                                           \
    {                                                                                              \
        .states = STATES, .shown = (numbers), .max_steps = (most), .scale = 50,                    \
        .actions = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {2}}, .start = cartpole_start,        \
        .observe = (observes), .step = cartpole_step, .draw = cartpole_draw                        \
    }
static const struct {
    const char *env_id;
    struct hd_classic with_velocities, without_velocities;
} versions[] = {
    {"", PHYSICS(4, observe, 200), PHYSICS(2, observe_positions, 200)},
    {"CartPole-v0", PHYSICS(4, observe, 200), PHYSICS(2, observe_positions, 200)},
    {"CartPole-v1", PHYSICS(4, observe, 500), PHYSICS(2, observe_positions, 500)},
};
enum { VERSIONS = sizeof versions / sizeof *versions };

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    struct hd_env_settings others = *settings;
    bool velocities = true;
    int version = 0;
    while (version < VERSIONS && strcmp(versions[version].env_id, settings->env_id) != 0)
        version++;
    if (version == VERSIONS) {
        snprintf(message, HD_ENV_MESSAGE,
                 "env.env_id must be CartPole-v0 or CartPole-v1, not '%.40s'", settings->env_id);
        return -1;
    }
    others.env_id = "";
    if (settings->n_options == 1 && strcmp(settings->options->name, "velocities") == 0) {
        const char *value = settings->options->value;
        velocities = strcmp(value, "true") == 0;
        others.n_options = 0;
        if (!velocities && strcmp(value, "false") != 0) {
            snprintf(message, HD_ENV_MESSAGE,
                     "env.options.velocities must be true or false, not '%.40s'", value);
            return -1;
        }
    }
    return hd_classic_create(velocities ? &versions[version].with_velocities
                                        : &versions[version].without_velocities,
                             &others, spec_p, group_p, message);
}

const struct hd_env hd_env_cartpole = HD_CLASSIC_ENV("cartpole", create);
