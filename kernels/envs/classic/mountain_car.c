/* SPDX-License-Identifier: Apache-2.0 */
/* Mountain car (Moore, "Efficient Memory-based Learning for Robot Control", 1990) with three
 * pushes, and with a push from -1 to 1. The state is the car's position, of which the valley's
 * height is the sine of three times it, and its velocity. An episode ends at the goal. */
#include "kernels/envs/classic/classic_internal.h"

#include <math.h>

enum {
    POSITION,
    VELOCITY,
    STATES,
    STEPPED = STATES, /* continuous: 1 after the first step of an episode, before it 0 */
    CONTINUOUS_STATES
};

static const double left = -1.2, right = 0.6, max_speed = 0.07;

static void mountain_car_start(struct hd_pcg64 *rng, double *state)
{
    state[POSITION] = hd_pcg64_uniform(rng, -0.6, -0.4);
}

static void observe(const double *state, float *obs)
{
    obs[0] = (float)state[POSITION];
    obs[1] = (float)state[VELOCITY];
}

static bool mountain_car_step(double *s, const void *action, double *reward_p)
{
    const double push = *(const int32_t *)action - 1;
    s[VELOCITY] += push * 0.001 + cos(3 * s[POSITION]) * -0.0025;
    s[VELOCITY] = hd_classic_clip(s[VELOCITY], -max_speed, max_speed);
    s[POSITION] = hd_classic_clip(s[POSITION] + s[VELOCITY], left, right);
    if (s[POSITION] == left && s[VELOCITY] < 0)
        s[VELOCITY] = 0; /* the wall on the left */
    *reward_p = -1;
    return s[POSITION] >= 0.5 && s[VELOCITY] >= 0;
}

static void mountain_car_draw(const double *s, const struct hd_canvas *canvas)
{
    const struct hd_canvas_color black = {0, 0, 0}, red = {200, 30, 30};
    double point[2][2] = {{left + 0.3, -0.55}, {left + 0.3, -0.55}};
    for (int i = 0; i <= 36; i++) {
        const double x = left + (right - left) * i / 36;
        point[1][0] = x + 0.3;
        point[1][1] = sin(3 * x) * 0.45;
        hd_canvas_draw_line(canvas, i ? point[0] : point[1], point[1], 0.01, black);
        point[0][0] = point[1][0];
        point[0][1] = point[1][1];
    }
    const double car[2] = {s[POSITION] + 0.3, sin(3 * s[POSITION]) * 0.45 + 0.05};
    hd_canvas_draw_line(canvas, car, car, 0.05, red);
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    static const struct hd_classic physics = {
        .states = STATES,
        .shown = 2,
        .max_steps = 200,
        .scale = 150,
        .actions = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {3}},
        .start = mountain_car_start,
        .observe = observe,
        .step = mountain_car_step,
        .draw = mountain_car_draw,
    };
    return hd_classic_create(&physics, settings, spec_p, group_p, message);
}

const struct hd_env hd_env_mountain_car = HD_CLASSIC_ENV("mountain_car", create);

/* -- Continuous -------------------------------------------------------------------------------- */
/* Gymnasium keeps the state in single precision after the first step, and NumPy computes in single
 * precision with what it has as such. A push beyond the bounds is replaced by a number of Python's,
 * which is a double. */

static double narrow(double x, bool stepped)
{
    return stepped ? (float)x : x;
}

/* Returns what a push adds to the velocity. */
static double accelerate(double position, float push, bool stepped)
{
    const double slope = 0.0025 * cos(narrow(3 * position, stepped));
    if (push > 1 || push < -1)
        return (push > 1 ? 0.0015 : -0.0015) - slope;
    return push * 0.0015f - (float)slope;
}

static bool step_continuous(double *s, const void *action, double *reward_p)
{
    const float push = *(const float *)action;
    const bool stepped = s[STEPPED] != 0;
    const double speed = narrow(max_speed, stepped), wall = narrow(left, stepped);
    const double add = accelerate(s[POSITION], push, stepped);
    const double velocity =
        hd_classic_clip(narrow(s[VELOCITY] + narrow(add, stepped), stepped), -speed, speed);
    const double position =
        hd_classic_clip(narrow(s[POSITION] + velocity, stepped), wall, narrow(right, stepped));
    s[POSITION] = (float)position;
    s[VELOCITY] = position == wall && velocity < 0 ? 0 : (float)velocity;
    s[STEPPED] = 1;
    const bool terminal = position >= narrow(0.45, stepped) && velocity >= 0;
    *reward_p = (terminal ? 100 : 0) - hd_classic_square(push) * 0.1;
    return terminal;
}

static int create_continuous(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                             void **group_p, char message[HD_ENV_MESSAGE])
{
    static const struct hd_classic physics = {
        .states = CONTINUOUS_STATES,
        .shown = 2,
        .max_steps = 999,
        .scale = 150,
        .actions = {.kind = HD_ENV_BOX, .dims = 1, .low = {-1}, .high = {1}},
        .start = mountain_car_start,
        .observe = observe,
        .step = step_continuous,
        .draw = mountain_car_draw,
    };
    return hd_classic_create(&physics, settings, spec_p, group_p, message);
}

const struct hd_env hd_env_mountain_car_continuous =
    HD_CLASSIC_ENV("mountain_car_continuous", create_continuous);
