/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how fast a group of envs steps on one core with random actions, resets included. */
#include "bench/parts/parts.h"
#include "kernels/envs/find.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <stdio.h>

enum { STEPS = 256 }; /* steps of one call, with fixed actions */

struct stepping {
    const struct hd_env *env;
    void *group;
    int64_t envs, frame_bytes;
    int32_t *action; /* [STEPS][envs] */
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
        s->failed = s->env->step(s->group, s->action + t * s->envs, &s->outcome, s->message) != 0;
        for (int64_t i = 0; i < s->envs && !s->failed; i++)
            if (s->outcome.done[i])
                reset(s, i);
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
    s->action = hd_alloc(STEPS * s->envs, sizeof *s->action);
    s->outcome.obs = hd_alloc(s->envs, (size_t)s->frame_bytes);
    s->outcome.reward = hd_alloc(s->envs, sizeof *s->outcome.reward);
    s->outcome.done = hd_alloc(s->envs, sizeof *s->outcome.done);
    s->outcome.truncated = hd_alloc(s->envs, sizeof *s->outcome.truncated);
    if (!s->action || !s->outcome.obs || !s->outcome.reward || !s->outcome.done ||
        !s->outcome.truncated)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < STEPS * s->envs; i++)
        s->action[i] = (int32_t)hd_rng_draw_below(&rng, (uint32_t)i, spec.actions);
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
