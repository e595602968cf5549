/* SPDX-License-Identifier: Apache-2.0 */
/* A pendulum of mass 1 and length 1, stepped by 0.05 s. The state is its angle from upright (rad),
 * which is not wrapped, and its velocity (rad/s). NumPy computes in single precision with the
 * torque. */
#include "kernels/envs/classic/classic_internal.h"

#include <math.h>

enum { THETA, THETA_DOT, STATES };

static const double seconds_per_step = 0.05, max_dot = 8;
static const float max_torque = 2;

static void pendulum_start(struct hd_pcg64 *rng, double *state)
{
    state[THETA] = hd_pcg64_uniform(rng, -M_PI, M_PI);
    state[THETA_DOT] = hd_pcg64_uniform(rng, -1, 1);
}

static void observe(const double *state, float *obs)
{
    obs[0] = (float)cos(state[THETA]);
    obs[1] = (float)sin(state[THETA]);
    obs[2] = (float)state[THETA_DOT];
}

/* Returns the angle in [-pi, pi), as Python's % computes it. */
static double normalize(double angle)
{
    double rest = fmod(angle + M_PI, 2 * M_PI);
    if (rest < 0)
        rest += 2 * M_PI;
    return rest - M_PI;
}

static bool pendulum_step(double *s, const void *action, double *reward_p)
{
    const float torque = fminf(fmaxf(*(const float *)action, -max_torque), max_torque);
    const float effort = 0.001f * (torque * torque), push = 3.0f * torque;
    const double cost = hd_classic_square(normalize(s[THETA])) +
                        0.1 * hd_classic_square(s[THETA_DOT]) + (double)effort;
    const double dot = s[THETA_DOT] + (15.0 * sin(s[THETA]) + (double)push) * seconds_per_step;
    s[THETA_DOT] = hd_classic_clip(dot, -max_dot, max_dot);
    s[THETA] += s[THETA_DOT] * seconds_per_step;
    *reward_p = -cost;
    return false;
}

static void pendulum_draw(const double *s, const struct hd_canvas *canvas)
{
    const double joint[2] = {0, 0}, tip[2] = {-sin(s[THETA]), cos(s[THETA])};
    hd_canvas_draw_line(canvas, joint, tip, 0.1, (struct hd_canvas_color){204, 77, 77});
    hd_canvas_draw_line(canvas, joint, joint, 0.05, (struct hd_canvas_color){0, 0, 0});
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    static const struct hd_classic physics = {
        .states = STATES,
        .shown = 3,
        .max_steps = 200,
        .scale = 70,
        .actions = {.kind = HD_ENV_BOX, .dims = 1, .low = {-2}, .high = {2}},
        .start = pendulum_start,
        .observe = observe,
        .step = pendulum_step,
        .draw = pendulum_draw,
    };
    return hd_classic_create(&physics, settings, spec_p, group_p, message);
}

const struct hd_env hd_env_pendulum = HD_CLASSIC_ENV("pendulum", create);
