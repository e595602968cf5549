/* SPDX-License-Identifier: Apache-2.0 */
/* Acrobot (Sutton, "Generalization in Reinforcement Learning", 1996, with the equations of Sutton
 * and Barto's book), stepped by 0.2 s with the Runge-Kutta method of fourth order. The state is the
 * angles of the first link from hanging down and of the second from the first (rad), and their
 * velocities (rad/s). An episode ends when the tip is a link's length above the first joint.
 * Sums and products are written in Gymnasium's order. */
#include "kernels/envs/classic/classic_internal.h"

#include <math.h>

enum { THETA_1, THETA_2, DOT_1, DOT_2, STATES };

static const double gravity = 9.8, seconds_per_step = 0.2;
static const double max_dot_1 = 4 * M_PI, max_dot_2 = 9 * M_PI;

/* Gymnasium keeps the start, and only the start, in single precision. */
static void acrobot_start(struct hd_pcg64 *rng, double *state)
{
    for (int i = 0; i < STATES; i++)
        state[i] = (float)hd_pcg64_uniform(rng, -0.1, 0.1);
}

static void observe(const double *state, float *obs)
{
    obs[0] = (float)cos(state[THETA_1]);
    obs[1] = (float)sin(state[THETA_1]);
    obs[2] = (float)cos(state[THETA_2]);
    obs[3] = (float)sin(state[THETA_2]);
    obs[4] = (float)state[DOT_1];
    obs[5] = (float)state[DOT_2];
}

/* Both links have length 1, mass 1 and moment of inertia 1; their centres are in the middle. */
static void derive(const double *s, double torque, double rate_p[STATES])
{
    const double sine = sin(s[THETA_2]), cosine = cos(s[THETA_2]);
    const double d1 = 0.25 + (1.25 + cosine) + 1 + 1;
    const double d2 = 0.25 + 0.5 * cosine + 1;
    const double phi2 = 0.5 * gravity * cos(s[THETA_1] + s[THETA_2] - M_PI / 2);
    const double phi1 = -0.5 * hd_classic_square(s[DOT_2]) * sine - s[DOT_2] * s[DOT_1] * sine +
                        1.5 * gravity * cos(s[THETA_1] - M_PI / 2) + phi2;
    const double acc_2 =
        (torque + d2 / d1 * phi1 - 0.5 * hd_classic_square(s[DOT_1]) * sine - phi2) /
        (1.25 - hd_classic_square(d2) / d1);
    rate_p[THETA_1] = s[DOT_1];
    rate_p[THETA_2] = s[DOT_2];
    rate_p[DOT_1] = -(d2 * acc_2 + phi1) / d1;
    rate_p[DOT_2] = acc_2;
}

/* Derives at the state that `seconds` at `rate` lead to. */
static void derive_after(const double *s, const double *rate, double seconds, double torque,
                         double rate_p[STATES])
{
    double moved[STATES];
    for (int i = 0; i < STATES; i++)
        moved[i] = s[i] + seconds * rate[i];
    derive(moved, torque, rate_p);
}

static void integrate(double *s, double torque)
{
    const double h = seconds_per_step;
    double k1[STATES], k2[STATES], k3[STATES], k4[STATES];
    derive(s, torque, k1);
    derive_after(s, k1, h / 2, torque, k2);
    derive_after(s, k2, h / 2, torque, k3);
    derive_after(s, k3, h, torque, k4);
    for (int i = 0; i < STATES; i++)
        s[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
}

static double wrap(double angle)
{
    while (angle > M_PI)
        angle -= 2 * M_PI;
    while (angle < -M_PI)
        angle += 2 * M_PI;
    return angle;
}

static bool acrobot_step(double *s, const void *action, double *reward_p)
{
    integrate(s, *(const int32_t *)action - 1);
    s[THETA_1] = wrap(s[THETA_1]);
    s[THETA_2] = wrap(s[THETA_2]);
    s[DOT_1] = hd_classic_clip(s[DOT_1], -max_dot_1, max_dot_1);
    s[DOT_2] = hd_classic_clip(s[DOT_2], -max_dot_2, max_dot_2);
    const bool terminal = -cos(s[THETA_1]) - cos(s[THETA_2] + s[THETA_1]) > 1;
    *reward_p = terminal ? 0 : -1;
    return terminal;
}

static void acrobot_draw(const double *s, const struct hd_canvas *canvas)
{
    const double joint[2] = {0, 0}, elbow[2] = {sin(s[THETA_1]), -cos(s[THETA_1])};
    const double tip[2] = {elbow[0] + sin(s[THETA_1] + s[THETA_2]),
                           elbow[1] - cos(s[THETA_1] + s[THETA_2])};
    const double goal[2][2] = {{-3, 1}, {3, 1}};
    hd_canvas_draw_line(canvas, goal[0], goal[1], 0.01, (struct hd_canvas_color){0, 0, 0});
    hd_canvas_draw_line(canvas, joint, elbow, 0.1, (struct hd_canvas_color){0, 204, 204});
    hd_canvas_draw_line(canvas, elbow, tip, 0.1, (struct hd_canvas_color){204, 204, 0});
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    static const struct hd_classic physics = {
        .states = STATES,
        .shown = 6,
        .max_steps = 500,
        .scale = 45,
        .actions = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {3}},
        .start = acrobot_start,
        .observe = observe,
        .step = acrobot_step,
        .draw = acrobot_draw,
    };
    return hd_classic_create(&physics, settings, spec_p, group_p, message);
}

const struct hd_env hd_env_acrobot = HD_CLASSIC_ENV("acrobot", create);
