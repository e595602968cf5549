/* SPDX-License-Identifier: Apache-2.0 */
/* A step adds numbers up over all shards between its stages in the tree over (shard, item), however
 * samples are distributed over shards and shards over ranks. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

enum { PARTIALS = 4, NUMBERS = 70 };

/* -- Verb share: PARTIALS numbers among all items of all shards -------------------------------- */

static double number(int64_t partial, int64_t i)
{
    return (double)(partial * partial + 3 * i + 1) / 7 * (partial == 1 ? 1e6 : 1);
}

static double expected(int64_t i)
{
    return (number(0, i) + number(1, i)) + (number(2, i) + number(3, i));
}

static int pooling_stage, last_stage; /* of the graph to be loaded */

static int prepare(const struct hd_setup *setup, void **args_p)
{
    struct hd_subtasks *subtasks = hd_alloc(1, sizeof *subtasks);
    if (!subtasks)
        return HD_ERR_NOMEM;
    *subtasks = (struct hd_subtasks){.items = PARTIALS / setup->shards,
                                     .stages = last_stage + 1,
                                     .work_bytes = NUMBERS * sizeof(double),
                                     .finish_last = true};
    *args_p = subtasks;
    return HD_OK;
}

static void get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    *subtasks_p = *(const struct hd_subtasks *)args;
}

static int64_t count_cross_shard_sums(const void *args, int stage)
{
    (void)args;
    return stage == pooling_stage ? NUMBERS : 0;
}

static int share(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views, (void)args;
    for (int64_t i = 0; context->partial_sums && i < NUMBERS; i++)
        context->partial_sums[i] = number(context->shard * context->items + context->item, i);
    if (context->cross_shard_sums)
        memcpy(context->work, context->cross_shard_sums, NUMBERS * sizeof(double));
    return HD_OK;
}

/* Counts the items that saw the right sums. */
static int finish(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t *to = views[0].data;
    for (int64_t item = 0; item < context->items; item++) {
        const double *sums = context->work_buffers[item];
        int64_t right = 0;
        for (int64_t i = 0; i < NUMBERS; i++)
            right += sums[i] == expected(i);
        to[0] += right == NUMBERS;
    }
    return HD_OK;
}

static const struct hd_port ports[] = {{"to", "ints", .mode = HD_UPDATE, .scope = HD_SCOPE_FINISH},
                                       {0}};
static const struct hd_verb verb_share = {.name = "share",
                                          .ports = ports,
                                          .prepare = prepare,
                                          .get_subtasks = get_subtasks,
                                          .count_cross_shard_sums = count_cross_shard_sums,
                                          .body = share,
                                          .finish = finish};

static struct loaded_graph load(const char *text, int64_t shards)
{
    return rank_load_with(&verb_share, NULL, text, shards, 1);
}

/* -- Distribution ------------------------------------------------------------------------------ */

enum { ITERATIONS = 6 };
static const char spread[] = "values:\n"
                             "  right: {type: ints, per: shard}\n"
                             "iteration:\n"
                             "  - share: {updates: [right]}\n"
                             "  - stop: {if: iteration >= 5, reason: limit}\n";

struct job {
    int64_t shards;
    int ranks;
    bool sequential;
};

static int run_rank(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    struct rank rank = {0};
    const char *reason;
    pooling_stage = 1;
    last_stage = 3;
    struct loaded_graph l = load(spread, job->shards);
    rank_start(&rank, world, l.graph, job->sequential, 3, 30);
    const int value = hd_graph_find_value(l.graph, "right");
    int code = 0;
    const int instances = rank.plan->values[value].instances;
    int64_t before[PARTIALS];
    for (int i = 0; i < instances; i++)
        before[i] = *(const int64_t *)hd_executor_get_data(rank.executor, value, i);
    if (hd_executor_run(rank.executor, &reason) != HD_OK)
        code = hd_fail(1, "%s", hd_session_get_message(rank.session));
    for (int i = 0; code == 0 && i < instances; i++) {
        int64_t right = *(const int64_t *)hd_executor_get_data(rank.executor, value, i) - before[i];
        if (right != ITERATIONS * PARTIALS / job->shards)
            code = hd_fail(2, "instance %d: %lld items saw the right sums", i, (long long)right);
    }
    rank_stop(&rank);
    loaded_graph_release(&l);
    return code;
}

TEST(how_samples_are_spread_changes_no_bit, .runs = 8)
{
    static const struct job jobs[] = {{1, 1, false}, {1, 1, true},  {2, 1, false}, {2, 2, false},
                                      {4, 1, false}, {4, 2, false}, {4, 4, false}, {4, 2, true}};
    struct job job = jobs[_i];
    ranks_run(job.ranks, run_rank, &job, "");
}

/* Shows that the test above would not pass with any order. */
TEST(another_order_has_other_bits)
{
    int differ = 0;
    for (int64_t i = 0; i < NUMBERS; i++)
        differ += number(0, i) + number(1, i) + number(2, i) + number(3, i) != expected(i);
    ck_assert_int_gt(differ, 0);
}

/* -- The plan ---------------------------------------------------------------------------------- */

TEST(the_plan_shows_what_is_added_up)
{
    struct hd_plan *plan;
    char *dump = NULL;
    size_t bytes;
    pooling_stage = 0;
    last_stage = 1;
    struct loaded_graph l = load(spread, 2);
    ck_assert_int_eq(hd_plan_create(l.graph, 1, 2, NULL, 100, &plan), HD_OK);
    FILE *file = open_memstream(&dump, &bytes);
    hd_plan_dump(plan, file);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(dump,
                                 "  share [shard, 2 items x 2 stages, finish last] updates right\n"
                                 "    share.sums0 [collective, 70 numbers] after stage 0\n"));
    ck_assert_int_ge(hd_plan_get_payload_bytes(plan), NUMBERS * (int64_t)sizeof(double));
    ck_assert_int_ge(hd_plan_get_scratch_bytes(plan), NUMBERS * (int64_t)sizeof(double));
    free(dump);
    hd_plan_destroy(plan);
    loaded_graph_release(&l);
}

TEST(sums_that_nobody_can_see_are_refused, .runs = 2)
{
    static const char global[] = "values:\n"
                                 "  right: {type: ints}\n"
                                 "iteration:\n"
                                 "  - share: {updates: [right]}\n";
    struct hd_plan *plan = NULL;
    pooling_stage = 1;
    last_stage = 1 + _i;
    struct loaded_graph l = load(_i == 0 ? spread : global, 2);
    ck_assert_int_eq(hd_plan_create(l.graph, 0, 1, NULL, 100, &plan), HD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    loaded_graph_release(&l);
}
