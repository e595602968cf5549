/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how fast worker processes step Gymnasium's envs with random actions, resets included, in
 * time on the clock, or with the actions of a net; and what a pass of the turn between two
 * processes takes at least. */
#include "bench/parts/parts.h"
#include "kernels/envs/find/find.h"
#include "kernels/envs/gymnasium/turn.h"
#include "kernels/net/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ENVS = 1024, MAX_FRAME = 1 << 18 };

struct stepping {
    const struct hd_env *env;
    void *group;
    struct hd_env_spec spec;
    int64_t envs;
    uint64_t seed[MAX_ENVS];
    char *obs;
    struct hd_net *net; /* NULL: actions are drawn */
    void *params, *work;
    float *q;
    float reward[MAX_ENVS];
    bool done[MAX_ENVS], truncated[MAX_ENVS];
    int32_t action[MAX_ENVS * HD_ENV_ACTION_DIMS]; /* or floats */
    char message[HD_ENV_MESSAGE];
};

static void draw(struct stepping *s, int64_t step)
{
    const struct hd_env_actions *actions = &s->spec.actions;
    const struct hd_rng rng = hd_rng_make(0, 0, 0, 0, step);
    for (int64_t i = 0; i < s->envs * actions->dims; i++) {
        const float real = 2 * (float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 1;
        if (actions->kind == HD_ENV_BOX)
            memcpy(&s->action[i], &real, sizeof real);
        else
            s->action[i] =
                (int32_t)hd_rng_draw_below(&rng, (uint32_t)i, actions->n[i % actions->dims]);
    }
}

static void choose(struct stepping *s)
{
    const struct hd_env_actions *actions = &s->spec.actions;
    const int64_t n = hd_net_count_actions(s->net);
    hd_net_forward(
        s->net,
        &(struct hd_net_pass){.params = s->params, .obs = s->obs, .rows = s->envs, .work = s->work},
        s->q);
    for (int64_t i = 0; i < s->envs; i++) {
        const float *q = s->q + i * n;
        int32_t best = 0;
        for (int32_t a = 0; a < n; a++) {
            const float real = fminf(fmaxf(q[a], -1), 1);
            best = q[a] > q[best] ? a : best;
            if (actions->kind == HD_ENV_BOX)
                memcpy(&s->action[i * n + a], &real, sizeof real);
        }
        if (actions->kind == HD_ENV_DISCRETE)
            s->action[i] = best;
    }
}

/* Makes a net of two hidden layers of 64 for envs of vectors, with one action or a box. */
static int make_policy(struct stepping *s)
{
    static const int64_t hidden[] = {64, 64};
    const struct hd_rng rng = hd_rng_make(1, 0, 0, 0, 0);
    const struct hd_env_actions *actions = &s->spec.actions;
    const struct hd_net_fields fields = {.obs_dims = 1,
                                         .obs_shape = s->spec.shape,
                                         .actions = actions->kind == HD_ENV_BOX ? actions->dims
                                                                                : actions->n[0],
                                         .hidden = hidden,
                                         .n_hidden = 2,
                                         .heads = HD_HEADS_Q};
    HD_TRY(hd_net_create(&fields, &s->net));
    s->params = hd_alloc(hd_net_get_params_bytes(s->net), 1);
    s->work = hd_alloc(hd_net_get_forward_bytes(s->net, s->envs, 1), 1);
    s->q = hd_alloc(s->envs * fields.actions, sizeof *s->q);
    if (!s->params || !s->work || !s->q)
        return HD_ERR_NOMEM;
    return hd_net_init(s->net, &rng, s->params);
}

static void release_policy(struct stepping *s)
{
    hd_net_destroy(s->net);
    hd_free(s->params);
    hd_free(s->work);
    hd_free(s->q);
}

static int reset_done(struct stepping *s)
{
    const int64_t frame = hd_env_get_frame_bytes(&s->spec);
    for (int64_t i = 0; i < s->envs; i++) {
        if (!s->done[i])
            continue;
        if (s->env->reset(s->group, i, s->seed[i]++, s->obs + i * frame, s->message) != 0)
            return HD_ERR_TASK;
        s->env->announce(s->group, i, s->seed[i]);
    }
    return HD_OK;
}

/* Steps for so many seconds and returns the steps of a second, or -1. */
static double play(struct stepping *s, double seconds)
{
    const struct hd_env_outcome outcome = {s->obs, s->reward, s->done, s->truncated};
    const int64_t begin = hd_clock_get_ns(), until = begin + (int64_t)(seconds * 1e9);
    int64_t steps = 0;
    for (; hd_clock_get_ns() < until; steps++) {
        if (reset_done(s) != HD_OK)
            return -1;
        if (s->net)
            choose(s);
        else
            draw(s, steps);
        if (s->env->step(s->group, s->action, &outcome, s->message) != 0)
            return -1;
    }
    return (double)(steps * s->envs) / ((double)(hd_clock_get_ns() - begin) * 1e-9);
}

static int measure_envs(const char *env_id, int64_t envs, const char *workers, double seconds,
                        bool policy)
{
    static struct stepping s;
    const struct hd_env_option options[] = {{"worker", workers}, {"path", "bench"}};
    const struct hd_env_settings settings = {
        .envs = envs, .env_id = env_id, .options = options, .n_options = 2};
    s.envs = envs;
    double rate = -1;
    if (hd_env_find("gymnasium", &s.env, s.message) == HD_OK &&
        s.env->create(&settings, &s.spec, &s.group, s.message) == 0) {
        s.obs = hd_alloc(envs, (size_t)hd_env_get_frame_bytes(&s.spec));
        memset(s.done, 1, sizeof s.done);
        if (s.obs && (!policy || make_policy(&s) == HD_OK) && play(&s, 0.5) > 0)
            rate = play(&s, seconds);
        s.env->destroy(s.group);
        hd_free(s.obs);
        release_policy(&s);
    }
    if (rate > 0)
        hd_part_report("steps", rate, "1/s");
    else
        fprintf(stderr, "%s\n", s.message);
    return rate > 0 ? HD_OK : HD_ERR_TASK;
}

/* A turn to another process and back, which does nothing. */
static int measure_floor(void)
{
    enum { PASSES = 100000 };
    struct {
        struct hd_bridge_calls calls;
        struct hd_bridge_control control;
    } *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return HD_ERR_NOMEM;
    shared->control.turn = HD_BRIDGE_THEIRS;
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            hd_gymnasium_next(&shared->calls, &shared->control, 1, 0);
    int64_t begin = 0;
    for (int i = -PASSES / 10; i < PASSES; i++) {
        begin = i == 0 ? hd_clock_get_ns() : begin;
        hd_turn_await(&shared->control, 1);
        hd_turn_give(&shared->calls, &shared->control);
    }
    hd_part_report("floor", (double)(hd_clock_get_ns() - begin) * 1e-3 / PASSES, "us");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(shared, sizeof *shared);
    return HD_OK;
}

static int measure(int argc, char **argv)
{
    const int64_t envs = hd_part_parse_number(argc, argv, 1, 16);
    const int64_t seconds = hd_part_parse_number(argc, argv, 3, 2);
    if (argc < 1 || envs == 0 || envs > MAX_ENVS || seconds == 0)
        return HD_ERR_INPUT;
    if (strcmp(argv[0], "floor") == 0)
        return measure_floor();
    return measure_envs(argv[0], envs, argc > 2 ? argv[2] : "2", (double)seconds, argc > 4);
}

const struct hd_bench_part hd_part_gymnasium = {
    "floor | ENV_ID [ENVS [WORKERS [SECONDS [policy]]]]",
    "steps of Gymnasium's envs in worker processes, or the time of a turn between processes",
    measure};
