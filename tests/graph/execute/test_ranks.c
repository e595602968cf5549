/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs of four shards on 1, 2 and 4 ranks of 1, 2 and 4 hosts: every rank ends with the
 * reference's bits, under each of StarPU's schedulers and under the sequential executor, while
 * ranks are delayed at random. Errors reach all ranks. HD_RANDOM_GRAPHS=n: graphs for each number
 * of ranks and hosts. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/random_graph.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

enum { SHARDS = 4, GRAPHS = 12 };

struct job {
    uint64_t seed;
    bool sequential;
    int hosts;
};

static uint64_t delay_seed;
static atomic_int delays;

static void on_delay(int number)
{
    (void)number;
    const int error = errno;
    const uint64_t key = hd_hash_mix(delay_seed, (uint64_t)atomic_fetch_add(&delays, 1));
    const struct timespec delay = {.tv_nsec = (long)(key % 4 == 0) * 400000};
    nanosleep(&delay, NULL);
    errno = error;
}

/* Interrupts some thread of this rank again and again, and now and then for longer. */
static void delay_at_random(uint64_t seed, int rank)
{
    const struct sigaction action = {.sa_handler = on_delay, .sa_flags = SA_RESTART};
    const struct timeval period = {.tv_usec = 500 + 170 * rank};
    delay_seed = hd_hash_mix(seed, (uint64_t)rank);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){period, period}, NULL);
}

static void delay_no_more(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{0}, {0}}, NULL);
}

static const char *choose_scheduler(uint64_t seed)
{
    const char *const *schedulers;
    uint64_t n = 0;
    hd_scheduler_is_known("", &schedulers);
    while (schedulers[n])
        n++;
    return schedulers[seed % n];
}

static int run_rank(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    struct loaded_graph l;
    struct rank rank = {0};
    const char *reason;
    hd_log_set_rank(world->rank, world->world);
    char *text = hd_random_graph(job->seed);
    rank_hosts = job->hosts;
    l = rank_load(&hd_toy_registry, text, SHARDS, job->seed);
    struct hd_reference *reference = hd_reference_run(l.graph);
    rank_scheduler = choose_scheduler(job->seed);
    rank_start(&rank, world, l.graph, job->sequential, 1 + (int)(job->seed % 3), 30);
    if (job->seed % 2 == 0)
        delay_at_random(job->seed, world->rank);
    int status = hd_executor_run(rank.executor, &reason);
    delay_no_more();
    if (status != HD_OK)
        hd_log(HD_LOG_ERROR, "%s", hd_session_get_message(rank.session));
    int code = status != HD_OK ? 2 : rank_compare(&rank, l.graph, reference);
    rank_stop(&rank);
    hd_reference_destroy(reference);
    loaded_graph_release(&l);
    hd_free(text);
    return code;
}

static void run_world(int ranks, uint64_t seed, bool sequential, int hosts)
{
    struct job job = {seed, sequential, hosts};
    char what[64];
    snprintf(what, sizeof what, "seed %llu, %s, %d hosts", (unsigned long long)seed,
             sequential ? "sequential" : "StarPU", hosts);
    ranks_run(ranks, run_rank, &job, what);
}

TEST(any_number_of_ranks_gives_the_same_bits, .runs = 3)
{
    const int ranks[] = {1, 2, 4};
    const char *text = getenv("HD_RANDOM_GRAPHS");
    const uint64_t graphs = text ? strtoull(text, NULL, 10) : GRAPHS;
    for (uint64_t seed = 500; seed < 500 + graphs; seed++)
        for (int hosts = 1; hosts <= ranks[_i]; hosts *= 2)
            run_world(ranks[_i], seed, seed % 4 == 0, hosts);
}

/* -- Errors ------------------------------------------------------------------------------------ */

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
    struct loaded_graph l;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    l = rank_load(&hd_toy_registry, failing, SHARDS, 1);
    rank_start(&rank, world, l.graph, false, 3, 30);
    int status = hd_executor_run(rank.executor, &reason);
    bool named = strstr(hd_session_get_message(rank.session), "meant to fail") != NULL;
    bool told = hd_session_get_cause(rank.session) == HD_ERR_TASK;
    int code = (status == HD_ERR_TASK || status == HD_ERR_PEER) && named && told && !reason ? 0 : 1;
    if (code)
        hd_log(HD_LOG_ERROR, "status %d, cause %d, reason %s: %s", status,
               hd_session_get_cause(rank.session), reason ? reason : "none",
               hd_session_get_message(rank.session));
    rank_stop(&rank);
    loaded_graph_release(&l);
    return code;
}

TEST(a_failed_task_ends_all_ranks, .runs = 3)
{
    const int ranks[] = {1, 2, 4};
    ranks_run(ranks[_i], run_failing, NULL, "");
}

/* One rank's parameters change behind the graph's back: the comparison names bucket and rank. */
#define BLENDING                                                                                   \
    "values:\n"                                                                                    \
    "  s: {type: floats, per: shard, bucket_mb: 3}\n"                                              \
    "  g: {type: floats, bucket_mb: 3}\n"                                                          \
    "  w: {type: floats, bucket_mb: 3}\n"                                                          \
    "iteration:\n"                                                                                 \
    "  - blend: {reads: [a: g, b: g], updates: [s]}\n"                                             \
    "  - mean: {reads: [s], writes: [g]}\n"                                                        \
    "  - blend: {reads: [a: g, b: g], updates: [w], counts: update}\n"
static const char comparing[] = BLENDING "  - stop: {if: iteration >= 50, reason: limit}\n";
static const char endless[] = BLENDING "  - stop: {if: iteration >= 100000000, reason: limit}\n";

static int run_diverging(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct loaded_graph l;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    l = rank_load(&hd_toy_registry, comparing, SHARDS, 1);
    rank_start(&rank, world, l.graph, false, 2, 30);
    if (world->rank == 1) {
        float *w = hd_executor_get_writable(rank.executor, hd_graph_find_value(l.graph, "w"), 0);
        w[2 * HD_BLOCK + 1] += 1;
    }
    int status = hd_executor_run(rank.executor, &reason);
    const char *message = hd_session_get_message(rank.session);
    bool named = strstr(message, "bucket 1 of 'w' differs between rank 0 and rank 1") != NULL;
    int code = (status == HD_ERR_DIVERGED || status == HD_ERR_PEER) && named ? 0 : 1;
    if (code)
        hd_log(HD_LOG_ERROR, "%d: %s", status, message);
    rank_stop(&rank);
    loaded_graph_release(&l);
    return code;
}

TEST(diverged_ranks_are_found_and_named)
{
    ranks_run(2, run_diverging, NULL, "");
}

/* A rank that is interrupted at any moment must not let the others read what it did not write. */
static void on_alarm(int number)
{
    (void)number;
    rank_interrupted = SIGINT;
}

static int run_interrupted(const struct hd_world *world, void *arg)
{
    const int *microseconds = arg;
    struct loaded_graph l;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    l = rank_load(&hd_toy_registry, endless, SHARDS, 1);
    rank_start(&rank, world, l.graph, false, 3, 30);
    if (world->rank == 1) {
        const struct itimerval once = {.it_value = {0, *microseconds}};
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &once, NULL);
    }
    int status = hd_executor_run(rank.executor, &reason);
    int code = status == (world->rank == 1 ? HD_ERR_INTERRUPTED : HD_ERR_PEER) ? 0 : 1;
    if (code)
        hd_log(HD_LOG_ERROR, "%d: %s", status, hd_session_get_message(rank.session));
    rank_stop(&rank);
    loaded_graph_release(&l);
    return code;
}

TEST(an_interrupted_rank_shows_the_others_nothing, .runs = 30)
{
    int microseconds = 3000 + 1371 * _i;
    ranks_run(2, run_interrupted, &microseconds, "");
}
