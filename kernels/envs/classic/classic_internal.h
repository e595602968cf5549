/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, time limits and saved states of the envs of classic control. The functions below are
 * those of struct hd_env. A saved state is the numbers of the state and the steps of the episode.
 * Thread safe for different groups. */
#pragma once

#include "kernels/envs/classic/canvas.h"
#include "kernels/envs/classic/classic.h"
#include "kernels/envs/classic/pcg64.h"

enum {
    HD_CLASSIC_STATES = 4, /* most numbers of a state */
    HD_CLASSIC_HEIGHT = 200,
    HD_CLASSIC_WIDTH = 300 /* of the picture that `draw` draws on */
};

/* The physics of an env. The functions are pure, but for what they write. */
struct hd_classic {
    int states; /* numbers of a state */
    int shown;  /* numbers of an observation */
    int64_t max_steps;
    double scale; /* pixels of a unit on the picture */
    struct hd_env_actions actions;
    void (*start)(struct hd_pcg64 *rng, double *state);
    void (*observe)(const double *state, float *obs);
    /* Steps by an action and returns whether a terminal state is reached. */
    bool (*step)(double *state, const void *action, double *reward_p);
    void (*draw)(const double *state, const struct hd_canvas *canvas);
};

/* Does what `create` of struct hd_env does; `physics` outlives the group. Takes no options. Has
 * its errors. */
int hd_classic_create(const struct hd_classic *physics, const struct hd_env_settings *settings,
                      struct hd_env_spec *spec_p, void **group_p, char message[HD_ENV_MESSAGE]);

/* Do what the members of struct hd_env do, with their errors. */
void hd_classic_destroy(void *group);
int hd_classic_reset(void *group, int64_t env, uint64_t seed, void *obs,
                     char message[HD_ENV_MESSAGE]);
int hd_classic_step(void *group, const void *action, const struct hd_env_outcome *outcome,
                    char message[HD_ENV_MESSAGE]);
int64_t hd_classic_get_state_bytes(const void *group);
int hd_classic_save(const void *group, int64_t env, void *state, char message[HD_ENV_MESSAGE]);
int hd_classic_load(void *group, int64_t env, const void *state, char message[HD_ENV_MESSAGE]);
int hd_classic_render(const void *group, int64_t env, uint8_t *rgb, char message[HD_ENV_MESSAGE]);

/* The members of a struct hd_env of classic control. */
#define HD_CLASSIC_ENV(of_name, of_create)                                                         \
    {                                                                                              \
        .abi = HD_ENV_ABI, .name = (of_name), .create = (of_create),                               \
        .destroy = hd_classic_destroy, .reset = hd_classic_reset, .step = hd_classic_step,         \
        .state_bytes = hd_classic_get_state_bytes, .save = hd_classic_save,                        \
        .load = hd_classic_load, .render = hd_classic_render                                       \
    }

/* Returns x ** 2 of Python, which is the C library's pow: its last bit sometimes differs from x *
 * x. */
double hd_classic_square(double x);

/* Returns x, or the bound that it passes. */
static inline double hd_classic_clip(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}
