/* SPDX-License-Identifier: Apache-2.0 */
/* The other ranks wait for a rank that is late in a task; the watchdog names a rank that never
 * arrives, and the collective that the others wait in. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <stdatomic.h>
#include <string.h>

enum { SHARDS = 2, RANKS = 2, PATIENCE_S = 2, LONGEST_S = 60 };

/* Rank 0 sets it once its watchdog has ended the run. */
static atomic_bool *given_up;

/* -- A verb that is late on rank 1 ------------------------------------------------------------- */

static int stall(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const int64_t until = hd_clock_get_ns() + LONGEST_S * 1000000000LL;
    while (context->rank == 1 && context->iteration == 2 && !atomic_load(given_up) &&
           hd_clock_get_ns() < until)
        usleep(10000);
    ++*(int64_t *)views[0].data;
    return HD_OK;
}

/* This verb is late between stages that add up over the shards. */
static void get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    (void)args;
    *subtasks_p = (struct hd_subtasks){.items = 1, .stages = 3};
}

static int64_t count_cross_shard_sums(const void *args, int stage)
{
    (void)args;
    return stage == 1;
}

static int share(struct hd_context *context, const struct hd_view *views, const void *args)
{
    if (context->partial_sums)
        *context->partial_sums = 1;
    return context->stage == 0 ? stall(context, views, args) : HD_OK;
}

static const struct hd_port ports[] = {{"to", "ints", .mode = HD_UPDATE}, {0}};
static const struct hd_verb verb_stall = {.name = "stall", .ports = ports, .body = stall};
static const struct hd_verb verb_share = {.name = "share",
                                          .ports = ports,
                                          .get_subtasks = get_subtasks,
                                          .count_cross_shard_sums = count_cross_shard_sums,
                                          .body = share};

/* -- Rank 0's wait ----------------------------------------------------------------------------- */

struct job {
    const char *text, *named;
    bool sequential;
};

/* A stop after the late task keeps ranks from running ahead of it. */
static const char barriers[] = "values:\n"
                               "  a: {type: ints, per: shard}\n"
                               "  t: {type: ints}\n"
                               "iteration:\n"
                               "  - sum: {reads: [a], writes: [t]}\n"
                               "  - stop: {reads: [t], if: iteration >= 50, reason: limit}\n"
                               "  - stall: {updates: [a]}\n"
                               "  - barrier: {}\n";

static const char reduces[] = "values:\n"
                              "  a: {type: ints, per: shard}\n"
                              "  t: {type: ints, placement: rank0}\n"
                              "iteration:\n"
                              "  - stall: {updates: [a]}\n"
                              "  - reduce: {reads: [a], writes: [t], op: max}\n"
                              "  - stop: {if: iteration >= 50, reason: limit}\n";

static const char cross_shard_sums[] = "values:\n"
                                       "  a: {type: ints, per: shard}\n"
                                       "iteration:\n"
                                       "  - share: {updates: [a]}\n"
                                       "  - stop: {if: iteration >= 50, reason: limit}\n";

static int run_rank(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    struct rank rank = {0};
    const char *reason = NULL;
    hd_log_set_level(HD_LOG_ERROR);
    struct loaded_graph l = rank_load_with(&verb_stall, &verb_share, job->text, SHARDS, 1);
    rank_start(&rank, world, l.graph, job->sequential, 1,
               world->rank == 0 ? PATIENCE_S : LONGEST_S);
    int status = hd_executor_run(rank.executor, &reason);
    if (world->rank == 0)
        atomic_store(given_up, true);
    const char *message = hd_session_get_message(rank.session);
    int code = 0;
    if (world->rank == 0 && (status != HD_ERR_WATCHDOG || !strstr(message, job->named)))
        code = hd_fail(1, "%d: %s", status, message);
    if (world->rank == 1 && status == HD_OK)
        code = 2;
    if (hd_session_get_cause(rank.session) != HD_ERR_WATCHDOG)
        code = 3;
    rank_stop(&rank);
    loaded_graph_release(&l);
    return code;
}

TEST(what_a_rank_waits_in_is_named, .runs = 6)
{
    static const struct job jobs[] = {
        {reduces, "reduce(a)", false},
        {reduces, "reduce(a)", true},
        {barriers, "sum(a)", false},
        {barriers, "barrier", true},
        {cross_shard_sums, "share.sums1", false},
        {cross_shard_sums, "share.sums1", true},
    };
    struct job job = jobs[_i];
    given_up = share_memory(sizeof *given_up);
    ranks_run(RANKS, run_rank, &job, job.named);
}
