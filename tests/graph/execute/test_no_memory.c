/* SPDX-License-Identifier: Apache-2.0 */
/* An allocation of one rank fails: the other hears of it. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

enum { RANKS = 2 };

static void drop(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
}

static const char exchanging[] = "values:\n"
                                 "  s: {type: floats, per: shard, bucket_mb: 3}\n"
                                 "  g: {type: floats, bucket_mb: 3}\n"
                                 "iteration:\n"
                                 "  - blend: {reads: [a: g, b: g], updates: [s]}\n"
                                 "  - mean: {reads: [s], writes: [g]}\n"
                                 "  - blend: {reads: [a: g, b: g], updates: [s], counts: update}\n"
                                 "  - stop: {if: iteration >= 20, reason: limit}\n";

/* Rank 1 fails; the exit code is the status. */
static int run_rank(const struct hd_world *world, void *arg)
{
    const int64_t *n = arg;
    struct rank rank = {0};
    const char *reason;
    hd_log_set_sink(drop, NULL);
    struct loaded_graph l = rank_load(&hd_toy_registry, exchanging, 4, 1);
    rank_start(&rank, world, l.graph, *n % 3 == 0, 1, 30);
    hd_alloc_fail_nth(world->rank == 1 ? *n : 0);
    int status = hd_executor_run(rank.executor, &reason);
    hd_alloc_fail_nth(0);
    rank_stop(&rank);
    loaded_graph_release(&l);
    return -status;
}

TEST(the_other_rank_does_not_wait)
{
    for (int64_t n = 1; n < 12; n += 2) {
        struct hd_world world = ranks_world(RANKS);
        pid_t pids[RANKS];
        ranks_start(&world, pids, run_rank, &n);
        ck_assert_int_eq(ranks_wait(pids[0]), -HD_ERR_PEER);
        ck_assert_int_eq(ranks_wait(pids[1]), -HD_ERR_NOMEM);
    }
}
