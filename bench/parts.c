/* SPDX-License-Identifier: Apache-2.0 */
/* usage: bench_parts CASE [NUMBER]
 *
 * Measures one part of the program once and prints one number:
 *   independent W   microseconds a task costs beside its body: empty tasks that share nothing, W
 * workers chained W       the same for empty tasks that update one value update milliseconds of a
 * whole CartPole DQN update on the kernels alone, batch 64 product N       GFLOP/s of a dense layer
 * N x N on a batch of 64 */
#include "kernels/adam.h"
#include "kernels/dqn_loss.h"
#include "kernels/linear.h"
#include "kernels/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/submit.h"
#include "runtime/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- The cost of a task: (wall x workers - bodies) / tasks
 * ----------------------------------------- */

static int empty_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    return HD_OK;
}

static bool group_empty(void *group)
{
    return atomic_load(&((struct hd_group *)group)->pending) <= 0;
}

/* Submits in windows, as a run does: never more than a few hundred tasks ahead. */
static int run_tasks(struct hd_session *session, struct hd_buffer **buffers, int n_buffers,
                     int64_t tasks)
{
    enum { WINDOW = 256 };
    struct hd_group groups[2] = {0};
    for (int64_t i = 0; i < tasks; i++) {
        struct hd_group *group = &groups[i / WINDOW % 2];
        if (i % WINDOW == 0)
            HD_TRY(hd_session_wait(session, group_empty, group));
        const struct hd_access access = {buffers[i % n_buffers], 0, HD_UPDATE};
        const struct hd_task task = {.verb = "empty",
                                     .name = "empty",
                                     .body = empty_body,
                                     .accesses = &access,
                                     .n_accesses = 1,
                                     .group = group};
        HD_TRY(hd_submit(session, &task));
    }
    return hd_session_drain(session);
}

static int measure_tasks(int n_buffers, int workers)
{
    enum { TASKS = 100000, MOST = 64 };
    struct hd_session *session;
    struct hd_buffer *buffers[MOST];
    const struct hd_session_options options = {.workers = workers, .scheduler = "lws", .ranks = 1};
    HD_TRY(hd_session_create(&options, &session));
    for (int i = 0; i < n_buffers; i++)
        HD_TRY(hd_buffer_create(session, 1, &buffers[i]));
    HD_TRY(run_tasks(session, buffers, n_buffers, TASKS / 10));
    int64_t busy_before, busy, tasks;
    hd_trace_totals(hd_session_trace(session), &busy_before, &tasks);
    int64_t begin = hd_clock_ns();
    HD_TRY(run_tasks(session, buffers, n_buffers, TASKS));
    int64_t wall = hd_clock_ns() - begin;
    hd_trace_totals(hd_session_trace(session), &busy, &tasks);
    printf("%.3f\n", (double)(wall * workers - (busy - busy_before)) * 1e-3 / TASKS);
    for (int i = 0; i < n_buffers; i++)
        hd_buffer_destroy(buffers[i]);
    hd_session_destroy(session);
    return HD_OK;
}

/* -- Kernels ------------------------------------------------------------------------------------
 */

enum { BATCH = 64, OBS = 4, ACTIONS = 2 };

static int measure_update(void)
{
    enum { REPEATS = 4000 };
    static const int64_t hidden[] = {128, 128, 64};
    const struct hd_net_fields fields = {OBS, ACTIONS, hidden, 3, true};
    static float obs[2 * BATCH * OBS], q[2 * BATCH * ACTIONS], next[BATCH * ACTIONS];
    static float dq[BATCH * ACTIONS], reward[BATCH], done[BATCH];
    static int32_t action[BATCH];
    struct hd_net *net;
    HD_TRY(hd_net_create(&fields, &net));
    int64_t n = hd_net_elements(net);
    float *params = hd_alloc(n, 4), *grad = hd_alloc(n, 4), *m = hd_alloc(n, 4),
          *v = hd_alloc(n, 4);
    void *work = hd_alloc(hd_net_forward_bytes(net, 2 * BATCH), 1);
    void *target_work = hd_alloc(hd_net_forward_bytes(net, BATCH), 1);
    void *scratch = hd_alloc(hd_net_backward_bytes(net, BATCH), 1);
    if (!params || !grad || !m || !v || !work || !target_work || !scratch)
        return HD_ERR_NOMEM;
    struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    hd_net_init(net, &rng, params);
    for (int i = 0; i < 2 * BATCH * OBS; i++)
        obs[i] = (float)hd_rng_uniform(&rng, (uint32_t)i);
    const struct hd_dqn_loss loss = {.batch = BATCH,
                                     .actions = ACTIONS,
                                     .nstep = 1,
                                     .gamma = 0.97f,
                                     .q = q,
                                     .online_next = q + BATCH * ACTIONS,
                                     .target_next = next,
                                     .action = action,
                                     .reward = reward,
                                     .ld_reward = BATCH,
                                     .done = done};
    struct hd_adam adam = hd_adam_default(1e-6);
    struct hd_dqn_sums sums;
    int64_t begin = hd_clock_ns();
    for (int t = 1; t <= REPEATS; t++) {
        hd_net_forward(net, params, obs, 2 * BATCH, work, q);
        hd_net_forward(net, params, obs + BATCH * OBS, BATCH, target_work, next);
        hd_dqn_loss(&loss, dq, NULL, &sums);
        hd_net_backward(net, params, BATCH, 2 * BATCH, work, dq, scratch, grad);
        hd_adam_step(&adam, t, n, grad, m, v, params);
    }
    printf("%.4f\n", (double)(hd_clock_ns() - begin) * 1e-6 / REPEATS);
    return HD_OK;
}

static int measure_product(int64_t n)
{
    const int64_t repeats = 400000000 / (n * n * BATCH) + 1;
    float *w = hd_alloc(n * n, 4), *bias = hd_alloc(n, 4), *x = hd_alloc(n * BATCH, 4);
    float *y = hd_alloc(n * BATCH, 4);
    if (!w || !bias || !x || !y)
        return HD_ERR_NOMEM;
    int64_t begin = hd_clock_ns();
    for (int64_t i = 0; i < repeats; i++)
        hd_linear_forward(n, n, BATCH, w, bias, true, x, BATCH, y, BATCH);
    printf("%.1f\n", 2.0 * (double)(n * n * BATCH * repeats) / (double)(hd_clock_ns() - begin));
    return HD_OK;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 1;
    int status = HD_ERR_INPUT;
    if (strcmp(what, "independent") == 0 && number > 0)
        status = measure_tasks(64, number);
    else if (strcmp(what, "chained") == 0 && number > 0)
        status = measure_tasks(1, number);
    else if (strcmp(what, "update") == 0)
        status = measure_update();
    else if (strcmp(what, "product") == 0 && number > 0)
        status = measure_product(number);
    if (status == HD_ERR_INPUT)
        fprintf(stderr, "usage: bench_parts independent|chained|update|product [NUMBER]\n");
    return hd_status_exit_code(status);
}
