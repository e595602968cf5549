/* SPDX-License-Identifier: Apache-2.0 */
/* A group of pixel Pong and what it shows. */
#pragma once

#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "tests/harness/check.h"

enum { FRAME = HD_PIXEL_PONG_FRAME, MAX_ENVS = 5, NOOP = 0, UP = 2, DOWN = 3 };

static const struct hd_env *const env = &hd_env_pixel_pong;

struct fixture {
    void *group;
    int64_t envs;
    uint8_t obs[MAX_ENVS][FRAME];
    float reward[MAX_ENVS];
    bool done[MAX_ENVS], truncated[MAX_ENVS];
};

static inline struct fixture make(int64_t envs, const char *background)
{
    struct fixture f = {.envs = envs};
    char message[HD_ENV_MESSAGE];
    const struct hd_env_option option = {"background", background};
    const struct hd_env_settings settings = {
        .envs = envs, .env_id = "", .options = &option, .n_options = background != NULL};
    struct hd_env_spec spec;
    ck_assert_int_eq(env->create(&settings, &spec, &f.group, message), 0);
    return f;
}

static inline void drop(struct fixture *f)
{
    env->destroy(f->group);
}

static inline void reset(struct fixture *f, int64_t i, uint64_t seed)
{
    char message[HD_ENV_MESSAGE];
    ck_assert_int_eq(env->reset(f->group, i, seed, f->obs[i], message), 0);
}

static inline void step(struct fixture *f, const int32_t *action)
{
    char message[HD_ENV_MESSAGE];
    const struct hd_env_outcome outcome = {f->obs, f->reward, f->done, f->truncated};
    ck_assert_int_eq(env->step(f->group, action, &outcome, message), 0);
}
