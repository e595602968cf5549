/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs of integer and float tasks, with lags, slots, shards, repeats, guards, collectives,
 * buckets, background tasks and stops: what StarPU computes is what the reference computes, by
 * bits, under every scheduler, with 1 to 4 workers and windows 1 to 4. One session per (scheduler,
 * workers). HD_RANDOM_GRAPHS=n: graphs per session (default 7); HD_RANDOM_SEED=s: start from that
 * seed. */
#include "graph/execute/execute.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/random_graph.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"
#include "tests/kernels/common/device.h"

#include <stdlib.h>
#include <string.h>

/* -- The comparison ---------------------------------------------------------------------------- */

static void compare_values(const struct loaded_graph *l, struct hd_reference *reference,
                           struct hd_executor *executor, const char *what, const char *text)
{
    for (int v = 0; v < l->graph->n_values; v++) {
        const struct hd_spec *spec = &l->graph->values[v].spec;
        ck_assert_msg(hd_executor_get_version(executor, v) == hd_reference_version(reference, v),
                      "%s: '%s' has %lld versions, not %lld\n%s", what, spec->name,
                      (long long)hd_executor_get_version(executor, v),
                      (long long)hd_reference_version(reference, v), text);
        int64_t n = spec->placement == HD_SHARD ? l->graph->shards : 1;
        if (!hd_executor_get_data(executor, v, 0))
            continue; /* not stored */
        for (int64_t s = 0; s < n; s++)
            ck_assert_msg(memcmp(hd_executor_get_data(executor, v, (int)s),
                                 hd_reference_data(reference, v, s), (size_t)spec->bytes) == 0,
                          "%s: instance %lld of '%s' differs\n%s", what, (long long)s, spec->name,
                          text);
    }
}

/* Runs the rank of this session and compares what it owns. */
static void run_and_compare(struct hd_session *session, const struct loaded_graph *l, int window,
                            bool rebuild, int gpus, const char *what, const char *text)
{
    struct hd_reference *reference = hd_reference_run(l->graph);
    const struct hd_plan_gpus with = {.n = gpus};
    struct hd_plan *plan;
    struct hd_executor *executor;
    const char *reason;
    ck_assert_int_eq(hd_plan_create(l->graph, 0, 1, &with, 100, &plan), HD_OK);
    ck_assert_int_eq(hd_session_reserve(session, hd_plan_get_scratch_bytes(plan)), HD_OK);
    const struct hd_executor_options options = {.window = window, .rebuild = rebuild};
    ck_assert_int_eq(hd_executor_create(plan, session, &options, &executor), HD_OK);
    int status = hd_executor_run(executor, &reason);
    ck_assert_msg(status == HD_OK, "%s: %s\n%s", what, hd_session_get_message(session), text);
    ck_assert_msg(
        strcmp(reason, hd_reference_reason(reference)) == 0 &&
            hd_executor_get_counter(executor, "iteration") == hd_reference_iterations(reference),
        "%s: stopped as '%s' after %lld iterations, not as '%s' after %lld\n%s", what, reason,
        (long long)hd_executor_get_counter(executor, "iteration"), hd_reference_reason(reference),
        (long long)hd_reference_iterations(reference), text);
    compare_values(l, reference, executor, what, text);
    hd_reference_destroy(reference);
    hd_executor_destroy(executor);
    hd_plan_destroy(plan);
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void run_session(const char *scheduler, int workers, int gpus, uint64_t first,
                        uint64_t count)
{
    struct hd_session *session;
    const struct hd_session_options options = {.sequential = scheduler == NULL,
                                               .workers = workers,
                                               .scheduler = scheduler,
                                               .ranks = 1,
                                               .n_devices = gpus,
                                               .devices = {0, 1},
                                               .device_scratch_bytes = 1 << 20,
                                               .watchdog_ns = 60000000000};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    for (uint64_t seed = first; seed < first + count; seed++) {
        char what[128];
        int window = 1 + (int)(seed / 3 % 4);
        snprintf(what, sizeof what, "HD_RANDOM_SEED=%llu, %s, %d workers, %d GPUs, window %d",
                 (unsigned long long)seed, scheduler ? scheduler : "sequential", workers, gpus,
                 window);
        char *text = hd_random_graph(seed);
        struct loaded_graph l = rank_load(&hd_toy_registry, text, 1 + (int64_t)(seed % 4), seed);
        run_and_compare(session, &l, window, seed % 5 == 0, gpus, what, text);
        loaded_graph_release(&l);
        hd_free(text);
    }
    hd_session_destroy(session);
}

static int count_schedulers(void)
{
    const char *const *schedulers;
    int n = 0;
    hd_scheduler_is_known("", &schedulers);
    while (schedulers[n])
        n++;
    return n;
}

TEST(sequential_equals_reference)
{
    run_session(NULL, 1, 0, number_from("HD_RANDOM_SEED", 1),
                10 * number_from("HD_RANDOM_GRAPHS", 7));
}

TEST(starpu_equals_reference, .runs = count_schedulers())
{
    const char *const *schedulers;
    hd_scheduler_is_known("", &schedulers);
    uint64_t count = number_from("HD_RANDOM_GRAPHS", 7);
    uint64_t first = number_from("HD_RANDOM_SEED", 1 + (uint64_t)_i * 1000);
    for (int workers = 1; workers <= 4; workers++)
        run_session(schedulers[_i], workers, 0, first + (uint64_t)(workers - 1) * count, count);
}

/* Plans use one GPU or two of those that there are. */
TEST(values_are_where_they_are_read, .runs = 10, .cuda = true)
{
    static const char *const ways[] = {NULL, "lws", "prio", "random", "dmda"};
    setenv("HD_EMULATED_DEVICES", "2", 0);
    const int gpus = 1 + _i % 2;
    const char *scheduler = ways[_i / 2];
    if (hd_device_count() < gpus || (scheduler && !hd_session_supports_devices()))
        return;
    run_session(scheduler, 2, gpus, number_from("HD_RANDOM_SEED", 1 + (uint64_t)_i * 100),
                2 * number_from("HD_RANDOM_GRAPHS", 7));
}

/* The generator makes every kind of op that the other tests need. */
TEST(all_lowerings_are_among_them)
{
    enum { SEEDS = 100 };
    int sharded_updates = 0, subtasks = 0, items = 0, lasts = 0, alone = 0, cross_shard_sums = 0,
        backgrounds = 0, by_gpus = 0, rounded = 0, residuals = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct hd_plan *plan;
        char *text = hd_random_graph(seed);
        struct loaded_graph l = rank_load(&hd_toy_registry, text, 4, seed);
        ck_assert_int_eq(hd_plan_create(l.graph, 0, 2, NULL, 100, &plan), HD_OK);
        for (int i = 0; i < plan->n_ops; i++) {
            sharded_updates += plan->ops[i].mean != NULL;
            rounded += hd_op_get_rounding(&plan->ops[i]) != NULL;
            residuals += hd_op_get_rounding(&plan->ops[i]) &&
                         plan->ops[i].step->refs[2].value != HD_NO_VALUE;
            subtasks += plan->ops[i].lowering == HD_LOWERING_SUBTASKS && plan->ops[i].flat >= 0;
            items += plan->ops[i].lowering == HD_LOWERING_SUBTASKS && plan->ops[i].flat < 0;
            lasts +=
                plan->ops[i].lowering == HD_LOWERING_SUBTASKS && plan->ops[i].subtasks.finish_last;
            cross_shard_sums += plan->ops[i].cross_shard_sums != NULL;
            alone += plan->ops[i].kind == HD_OP_STEP && plan->ops[i].buckets > 1 &&
                     plan->ops[i].step->placement == HD_SHARD;
            backgrounds +=
                plan->ops[i].background && strcmp(plan->ops[i].step->verb->name, "creep") == 0;
        }
        hd_plan_destroy(plan);
        const struct hd_plan_gpus two = {.n = 2};
        ck_assert_int_eq(hd_plan_create(l.graph, 0, 1, &two, 100, &plan), HD_OK);
        for (int i = 0; i < plan->n_ops; i++)
            by_gpus += plan->ops[i].lowering == HD_LOWERING_GPU_REDUCE;
        hd_plan_destroy(plan);
        loaded_graph_release(&l);
        hd_free(text);
    }
    printf("in %d graphs: %d sharded_updates, %d steps in subtasks of sums, %d by items, %d of "
           "them with "
           "finish last, %d shard steps bucket by bucket, %d that add up between stages, %d "
           "background "
           "tasks "
           "of several calls, %d means by two GPUs, %d rounded means, %d of them with residuals\n",
           SEEDS, sharded_updates, subtasks, items, lasts, alone, cross_shard_sums, backgrounds,
           by_gpus, rounded, residuals);
#if HD_CUDA
    ck_assert_int_ge(by_gpus, SEEDS / 20);
#endif
    ck_assert_int_ge(sharded_updates, SEEDS / 10);
    ck_assert_int_ge(residuals, SEEDS / 20);
    ck_assert_int_ge(rounded - residuals, SEEDS / 20);
    ck_assert_int_ge(subtasks, SEEDS / 10);
    ck_assert_int_ge(items, SEEDS / 10);
    ck_assert_int_ge(lasts, SEEDS / 20);
    ck_assert_int_ge(alone, SEEDS / 20);
    ck_assert_int_ge(cross_shard_sums, SEEDS / 20);
    ck_assert_int_ge(backgrounds, SEEDS / 10);
}
