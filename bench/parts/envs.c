/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how fast a group of envs steps on one core with random actions, resets included. */
#include "bench/parts/parts.h"
#include "kernels/envs/find/find.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 256 }; /* steps of one call, with fixed actions */

struct stepping {
    const struct hd_env *env;
    void *group;
    int64_t envs, frame_bytes;
    int64_t dims;
    union number {
        int32_t choice;
        float real;
    } * action; /* [STEPS][envs][dims] */
    struct hd_env_outcome outcome;
    uint64_t seed;
    bool failed;
    char message[HD_ENV_MESSAGE];
};

static void reset(struct stepping *s, int64_t i)
{
    void *obs = (char *)s->outcome.obs + i * s->frame_bytes;
    s->failed = s->failed || s->env->reset(s->group, i, s->seed++, obs, s->message) != 0;
}

static void play(void *arg)
{
    struct stepping *s = arg;
    for (int64_t t = 0; t < STEPS && !s->failed; t++) {
        s->failed =
            s->env->step(s->group, s->action + t * s->envs * s->dims, &s->outcome, s->message) != 0;
        for (int64_t i = 0; i < s->envs && !s->failed; i++)
            if (s->outcome.done[i])
                reset(s, i);
    }
}

static float bound(float limit)
{
    return fmaxf(fminf(limit, 1), -1);
}

/* Draws choices, or numbers of a box between bounds of at most 1. */
static void draw_actions(const struct hd_env_actions *actions, const struct hd_rng *rng,
                         struct stepping *s)
{
    for (int64_t i = 0; i < STEPS * s->envs * s->dims; i++) {
        const int64_t dim = i % s->dims;
        if (actions->kind != HD_ENV_BOX) {
            s->action[i].choice = (int32_t)hd_rng_draw_below(rng, (uint32_t)i, actions->n[dim]);
            continue;
        }
        const float low = bound(actions->low[dim]), high = bound(actions->high[dim]);
        const float u = (float)hd_rng_draw_uniform(rng, (uint32_t)i);
        s->action[i].real = low + (high - low) * u;
    }
}

static int create(const char *type, const char *env_id, struct stepping *s)
{
    const struct hd_env_settings settings = {.envs = s->envs, .env_id = env_id};
    const struct hd_rng rng = hd_rng_make(0, 0, 0, 0, 0);
    struct hd_env_spec spec;
    if (hd_env_find(type, &s->env, s->message) != HD_OK ||
        s->env->create(&settings, &spec, &s->group, s->message) != 0)
        return HD_ERR_TASK;
    s->frame_bytes = hd_env_get_frame_bytes(&spec);
    s->dims = spec.actions.dims;
    s->action = hd_alloc(STEPS * s->envs * s->dims, sizeof *s->action);
    s->outcome.obs = hd_alloc(s->envs, (size_t)s->frame_bytes);
    s->outcome.reward = hd_alloc(s->envs, sizeof *s->outcome.reward);
    s->outcome.done = hd_alloc(s->envs, sizeof *s->outcome.done);
    s->outcome.truncated = hd_alloc(s->envs, sizeof *s->outcome.truncated);
    if (!s->action || !s->outcome.obs || !s->outcome.reward || !s->outcome.done ||
        !s->outcome.truncated)
        return HD_ERR_NOMEM;
    draw_actions(&spec.actions, &rng, s);
    for (int64_t i = 0; i < s->envs; i++)
        reset(s, i);
    return HD_OK;
}

static void destroy(struct stepping *s)
{
    if (s->group)
        s->env->destroy(s->group);
    hd_free(s->action);
    hd_free(s->outcome.obs);
    hd_free(s->outcome.reward);
    hd_free(s->outcome.done);
    hd_free(s->outcome.truncated);
}

static int measure(int argc, char **argv)
{
    const int64_t screens = hd_part_parse_number(argc, argv, 2, 1);
    struct stepping s = {.envs = hd_part_parse_number(argc, argv, 1, 8)};
    if (argc < 1 || s.envs == 0 || screens == 0)
        return HD_ERR_INPUT;
    int status = create(argv[0], argc > 3 ? argv[3] : "", &s);
    double seconds = status == HD_OK ? hd_part_measure_seconds(play, &s) : 1;
    if (status != HD_OK || s.failed) {
        fprintf(stderr, "%s: %s\n", argv[0], s.message);
        status = HD_ERR_TASK;
    } else {
        const double steps = (double)(STEPS * s.envs) / seconds;
        hd_part_report("steps", steps, "1/s");
        if (screens > 1)
            hd_part_report("screens", steps * (double)screens, "1/s");
    }
    destroy(&s);
    return status;
}

const struct hd_bench_part hd_part_envs = {
    "TYPE [ENVS [SCREENS [ENV_ID]]]",
    "env steps of a group of ENVS (8), which play SCREENS (1) screens a step", measure};
