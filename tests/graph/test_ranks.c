/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs of four shards on 1, 2 and 4 ranks, over shared memory: every rank ends with the
 * reference's bits, under StarPU and under the sequential executor. Errors reach all ranks. */
#include "graph/execute.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/reference.h"
#include "tests/graph/toy.h"
#include "tests/runtime/ranks.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

enum { SHARDS = 4, GRAPHS = 12, RANKS_MAX = 4 };

struct loaded {
    struct hd_document *document;
    struct hd_config *config;
    struct hd_diag *diag;
    struct hd_graph *graph;
};

static void unload(struct loaded *l)
{
    hd_graph_destroy(l->graph);
    hd_config_destroy(l->config);
    hd_document_destroy(l->document);
    hd_diag_destroy(l->diag);
}

/* The rank's place in the run of one graph. */
struct rank {
    struct hd_store *store;
    struct hd_comm *comm;
    struct hd_session *session;
    struct hd_plan *plan;
    struct hd_executor *executor;
};

static volatile sig_atomic_t interrupted;

static void start(struct rank *rank, const struct hd_world *world, struct hd_graph *graph,
                  bool sequential, int window)
{
    const struct hd_store_options store_options = {
        .world = world, .fingerprint = "f", .one_host = true, .timeout_ns = 20000000000};
    ck_assert_int_eq(hd_plan_create(graph, world->rank, world->world, 2, &rank->plan), HD_OK);
    if (world->world > 1) {
        ck_assert_int_eq(hd_store_create(&store_options, &rank->store), HD_OK);
        ck_assert_int_eq(hd_comm_create(world, rank->store, hd_plan_payload(rank->plan),
                                        rank->plan->shared_bytes, &rank->comm),
                         HD_OK);
    }
    const struct hd_session_options options = {.sequential = sequential,
                                               .workers = 1 + window % 2,
                                               .scheduler = "lws",
                                               .rank = world->rank,
                                               .ranks = world->world,
                                               .local_rank = world->rank,
                                               .comm = rank->comm,
                                               .scratch_bytes = hd_plan_scratch(rank->plan),
                                               .watchdog_ns = 30000000000,
                                               .interrupted = &interrupted};
    ck_assert_int_eq(hd_session_create(&options, &rank->session), HD_OK);
    const struct hd_executor_options executor_options = {.window = window};
    ck_assert_int_eq(
        hd_executor_create(rank->plan, rank->session, &executor_options, &rank->executor), HD_OK);
}

static void stop(struct rank *rank)
{
    hd_executor_destroy(rank->executor);
    hd_session_destroy(rank->session);
    hd_store_destroy(rank->store);
    hd_comm_destroy(rank->comm);
    hd_plan_destroy(rank->plan);
}

/* Whether an instance is the reference's: of a parted value, the blocks that are this rank's. */
static bool equal(const struct rank *rank, int value, const struct hd_spec *spec, const float *data,
                  const float *expected)
{
    if (!rank->plan->values[value].parted)
        return memcmp(data, expected, (size_t)spec->bytes) == 0;
    for (int part = 0; part < spec->parts; part++) {
        int64_t lo, hi;
        hd_spec_part(spec, part, &lo, &hi);
        const int64_t blocks = (hi - lo + HD_BLOCK - 1) / HD_BLOCK, ranks = rank->plan->ranks;
        for (int64_t i = lo; i < hi; i++) {
            int64_t block = (i - lo) / HD_BLOCK;
            bool mine = block >= blocks * rank->plan->rank / ranks &&
                        block < blocks * (rank->plan->rank + 1) / ranks;
            if (mine && memcmp(&data[i], &expected[i], sizeof data[i]) != 0)
                return false;
        }
    }
    return true;
}

/* 0 when all that this rank owns is the reference's. */
static int compare(const struct rank *rank, const struct hd_graph *graph,
                   const struct hd_reference *reference)
{
    for (int v = 0; v < graph->n_values; v++) {
        const struct hd_spec *spec = &graph->values[v].spec;
        const struct hd_plan_value *plan = &rank->plan->values[v];
        if (hd_executor_version(rank->executor, v) != hd_reference_version(reference, v))
            return hd_fail(1, "'%s': other number of versions", spec->name);
        for (int i = 0; i < plan->instances; i++)
            if (!equal(rank, v, spec, hd_executor_data(rank->executor, v, i),
                       hd_reference_data(reference, v, plan->first + i)))
                return hd_fail(1, "'%s': instance %lld differs", spec->name,
                               (long long)plan->first + i);
    }
    return 0;
}

struct job {
    uint64_t seed;
    bool sequential;
};

static int run_rank(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    struct loaded l;
    struct rank rank = {0};
    const char *reason;
    hd_log_set_rank(world->rank, world->world);
    char *text = hd_random_graph(job->seed);
    l.graph = hd_toy_load(text, SHARDS, job->seed, &l.document, &l.config, &l.diag);
    struct hd_reference *reference = hd_reference_run(l.graph);
    start(&rank, world, l.graph, job->sequential, 1 + (int)(job->seed % 3));
    int status = hd_executor_run(rank.executor, &reason);
    if (status != HD_OK)
        hd_log(HD_LOG_ERROR, "%s", hd_session_message(rank.session));
    int code = status != HD_OK ? 2 : compare(&rank, l.graph, reference);
    stop(&rank);
    hd_reference_destroy(reference);
    unload(&l);
    hd_free(text);
    return code;
}

static void run_world(int ranks, uint64_t seed, bool sequential)
{
    struct job job = {seed, sequential};
    struct hd_world world = ranks_world(ranks);
    pid_t pids[RANKS_MAX];
    ranks_start(&world, pids, run_rank, &job);
    for (int r = 0; r < ranks; r++) {
        int code = ranks_wait(pids[r]);
        ck_assert_msg(code == 0, "seed %llu, rank %d of %d, %s: exit code %d",
                      (unsigned long long)seed, r, ranks, sequential ? "sequential" : "StarPU",
                      code);
    }
}

START_TEST(any_number_of_ranks_gives_the_same_bits)
{
    const int ranks[] = {1, 2, 4};
    const char *text = getenv("HD_RANDOM_GRAPHS");
    const uint64_t graphs = text ? strtoull(text, NULL, 10) : GRAPHS;
    for (uint64_t seed = 500; seed < 500 + graphs; seed++)
        run_world(ranks[_i], seed, seed % 4 == 0);
}
END_TEST

/* -- Errors -------------------------------------------------------------------------------------
 */

static const char failing[] = "values:\n"
                              "  a: {type: ints, per: shard}\n"
                              "  b: {type: ints, per: shard}\n"
                              "  t: {type: ints}\n"
                              "iteration:\n"
                              "  - bump: {updates: [a]}\n"
                              "  - fail: {reads: [a], writes: [b]}\n"
                              "  - sum: {reads: [b], writes: [t]}\n"
                              "  - stop: {if: iteration >= 50, reason: limit}\n";

static int run_failing(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct loaded l;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    l.graph = hd_toy_load(failing, SHARDS, 1, &l.document, &l.config, &l.diag);
    start(&rank, world, l.graph, false, 3);
    int status = hd_executor_run(rank.executor, &reason);
    bool named = strstr(hd_session_message(rank.session), "meant to fail") != NULL;
    int code = (status == HD_ERR_TASK || status == HD_ERR_PEER) && named && !reason ? 0 : 1;
    stop(&rank);
    unload(&l);
    return code;
}

START_TEST(a_failed_task_ends_all_ranks)
{
    const int ranks[] = {1, 2, 4};
    struct hd_world world = ranks_world(ranks[_i]);
    pid_t pids[RANKS_MAX];
    ranks_start(&world, pids, run_failing, NULL);
    for (int r = 0; r < ranks[_i]; r++)
        ck_assert_int_eq(ranks_wait(pids[r]), 0);
}
END_TEST

/* One rank's parameters change behind the graph's back: the comparison names part and rank. */
static const char comparing[] = "values:\n"
                                "  s: {type: floats, per: shard, parts: 3}\n"
                                "  g: {type: floats, parts: 3}\n"
                                "  w: {type: floats, parts: 3}\n"
                                "iteration:\n"
                                "  - blend: {reads: [a: g, b: g], updates: [s]}\n"
                                "  - mean: {reads: [s], writes: [g]}\n"
                                "  - blend: {reads: [a: g, b: g], updates: [w], counts: update}\n"
                                "  - stop: {if: iteration >= 50, reason: limit}\n";

static const char endless[] = "values:\n"
                              "  s: {type: floats, per: shard, parts: 3}\n"
                              "  g: {type: floats, parts: 3}\n"
                              "  w: {type: floats, parts: 3}\n"
                              "iteration:\n"
                              "  - blend: {reads: [a: g, b: g], updates: [s]}\n"
                              "  - mean: {reads: [s], writes: [g]}\n"
                              "  - blend: {reads: [a: g, b: g], updates: [w], counts: update}\n"
                              "  - stop: {if: iteration >= 100000000, reason: limit}\n";

static int run_diverging(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct loaded l;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    l.graph = hd_toy_load(comparing, SHARDS, 1, &l.document, &l.config, &l.diag);
    start(&rank, world, l.graph, false, 2);
    if (world->rank == 1) {
        float *w = hd_executor_write(rank.executor, hd_graph_find(l.graph, "w"), 0);
        w[2 * HD_BLOCK + 1] += 1;
    }
    int status = hd_executor_run(rank.executor, &reason);
    const char *message = hd_session_message(rank.session);
    bool named = strstr(message, "part 1 of 'w' differs between rank 0 and rank 1") != NULL;
    int code = (status == HD_ERR_DIVERGED || status == HD_ERR_PEER) && named ? 0 : 1;
    if (code)
        hd_log(HD_LOG_ERROR, "%d: %s", status, message);
    stop(&rank);
    unload(&l);
    return code;
}

START_TEST(diverged_ranks_are_found_and_named)
{
    struct hd_world world = ranks_world(2);
    pid_t pids[RANKS_MAX];
    ranks_start(&world, pids, run_diverging, NULL);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(ranks_wait(pids[r]), 0);
}
END_TEST

/* A rank that is interrupted at any moment must not let the others read what it did not write. */
static void on_alarm(int number)
{
    (void)number;
    interrupted = SIGINT;
}

static int run_interrupted(const struct hd_world *world, void *arg)
{
    const int *microseconds = arg;
    struct loaded l;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    l.graph = hd_toy_load(endless, SHARDS, 1, &l.document, &l.config, &l.diag);
    start(&rank, world, l.graph, false, 3);
    if (world->rank == 1) {
        const struct itimerval once = {.it_value = {0, *microseconds}};
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &once, NULL);
    }
    int status = hd_executor_run(rank.executor, &reason);
    int code = status == (world->rank == 1 ? HD_ERR_INTERRUPTED : HD_ERR_PEER) ? 0 : 1;
    if (code)
        hd_log(HD_LOG_ERROR, "%d: %s", status, hd_session_message(rank.session));
    stop(&rank);
    unload(&l);
    return code;
}

START_TEST(an_interrupted_rank_shows_the_others_nothing)
{
    int microseconds = 3000 + 1371 * _i;
    struct hd_world world = ranks_world(2);
    pid_t pids[RANKS_MAX];
    ranks_start(&world, pids, run_interrupted, &microseconds);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(ranks_wait(pids[r]), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *tests = tcase_create("shared memory");
    tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, any_number_of_ranks_gives_the_same_bits, 0, 3);
    tcase_add_loop_test(tests, a_failed_task_ends_all_ranks, 0, 3);
    tcase_add_test(tests, diverged_ranks_are_found_and_named);
    tcase_add_loop_test(tests, an_interrupted_rank_shows_the_others_nothing, 0, 30);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
