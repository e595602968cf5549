/* SPDX-License-Identifier: Apache-2.0 */
/* In steps by items that write no flat value, items go through all their stages side by side, a
 * `finish` that runs last waits for all of them, and the plan says so. An early stage does not wait
 * for what only later ones touch. */
#include "graph/execute/execute.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 2, STAGES = 4, INTS = HD_TOY_INTS };

/* -- A verb whose items wait for each other in every stage ------------------------------------- */

enum { PATIENCE_NS = 3000000000 };
static atomic_int arrived[STAGES], met, ended, ended_at_finish;
static int64_t given_items;
static bool first_is_every; /* port `first` is read in every stage after all */

static int meet(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const int64_t until = hd_clock_get_ns() + PATIENCE_NS;
    arrived[context->stage]++;
    while (arrived[context->stage] < ITEMS && hd_clock_get_ns() < until)
        ;
    met += arrived[context->stage] == ITEMS;
    const bool sees_first = context->stage == 0 || first_is_every;
    if (!views[0].data || !views[1].data || !!views[2].data != sees_first || views[3].data)
        return hd_body_fail(context, "stage %d sees other values than it should", context->stage);
    ((int64_t *)views[0].data)[context->item * INTS] += views[1].version;
    ended++;
    return HD_OK;
}

static int finish(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    ended_at_finish = ended;
    if (!views[0].data || !views[1].data || !!views[2].data != first_is_every || !views[3].data)
        return hd_body_fail(context, "finish sees other values than it should");
    return HD_OK;
}

static void get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    (void)args;
    *subtasks_p = (struct hd_subtasks){.items = given_items, .stages = STAGES, .finish_last = true};
}

static const struct hd_port ports[] = {
    {"rows", "rows", .mode = HD_UPDATE, .scope = HD_SCOPE_ITEM},
    {"every", "ints", .mode = HD_READ, .scope = HD_SCOPE_ALL},
    {"first", "ints", .mode = HD_READ},
    {"last", "ints", .mode = HD_UPDATE, .scope = HD_SCOPE_FINISH},
    {0}};

static enum hd_access_scope get_scope(const void *args, int port)
{
    (void)args;
    return port == 2 && first_is_every ? HD_SCOPE_ALL : ports[port].scope;
}

static const struct hd_verb verb_meet = {.name = "meet",
                                         .ports = ports,
                                         .get_subtasks = get_subtasks,
                                         .body = meet,
                                         .finish = finish,
                                         .get_scope = get_scope};

/* -- Graphs of it ------------------------------------------------------------------------------ */

static const char text[] = "values:\n"
                           "  rows: {type: rows}\n"
                           "  a: {type: ints}\n"
                           "  b: {type: ints}\n"
                           "  last: {type: ints}\n"
                           "iteration:\n"
                           "  - bump: {updates: [a]}\n"
                           "  - meet: {reads: [every: a, first: b], updates: [rows, last]}\n"
                           "  - stop: {reads: [last], if: iteration >= 0, reason: limit}\n";

/* Loads a graph with a seed for which rows have ITEMS partials. */
static struct loaded_graph load(void)
{
    struct loaded_graph l = rank_load_with(&verb_meet, NULL, text, 1, 6);
    ck_assert_int_eq(l.graph->values[hd_graph_find_value(l.graph, "rows")].spec.partials, ITEMS);
    return l;
}

TEST(items_need_not_wait_for_each_other, .runs = 6)
{
    static const char *const schedulers[] = {"lws", "eager", "prio"};
    struct rank rank = {0};
    const char *reason;
    given_items = ITEMS;
    first_is_every = _i >= 3;
    struct loaded_graph l = load();
    const struct hd_session_options options = {
        .workers = 2, .scheduler = schedulers[_i % 3], .ranks = 1, .watchdog_ns = 20000000000};
    rank_open(&rank, l.graph, options, 1);
    int status = hd_executor_run(rank.executor, &reason);
    ck_assert_msg(status == HD_OK, "%s", hd_session_get_message(rank.session));
    ck_assert_int_eq(met, ITEMS * STAGES);
    ck_assert_int_eq(ended_at_finish, ITEMS * STAGES);
    rank_stop(&rank);
    loaded_graph_release(&l);
}

TEST(the_plan_shows_items_and_stages)
{
    struct loaded_graph l;
    struct hd_plan *plan;
    char *dump = NULL;
    size_t bytes;
    given_items = ITEMS;
    l = load();
    FILE *file = open_memstream(&dump, &bytes);
    ck_assert_int_eq(hd_plan_create(l.graph, 0, 1, NULL, 100, &plan), HD_OK);
    hd_plan_dump(plan, file);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(dump, "meet [global, 2 items x 4 stages, finish last] reads a, b "
                                       "updates rows (by items), last"));
    ck_assert_ptr_nonnull(strstr(dump, "partials 2"));
    free(dump);
    hd_plan_destroy(plan);
    loaded_graph_release(&l);
}

TEST(items_and_leaves_must_agree)
{
    struct loaded_graph l;
    struct hd_plan *plan = NULL;
    given_items = 3;
    l = load();
    ck_assert_int_eq(hd_plan_create(l.graph, 0, 1, NULL, 100, &plan), HD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    loaded_graph_release(&l);
}

/* -- A verb whose early stage ends before the value of its other port is there ------------------
 */

static atomic_int looked, looked_while_held;

/* Updates a value once the early stage of `look`, which comes after it, has run. */
static int hold(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    const int64_t until = hd_clock_get_ns() + PATIENCE_NS;
    while (looked < 1 && hd_clock_get_ns() < until)
        ;
    looked_while_held = looked;
    ((int64_t *)views[0].data)[0]++;
    return HD_OK;
}

static const struct hd_port hold_ports[] = {{"late", "ints", .mode = HD_UPDATE}, {0}};
static const struct hd_verb verb_hold = {.name = "hold", .ports = hold_ports, .body = hold};

enum { LATE, SOON, FOUND };

static int look(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const bool early = context->stage == 0, second = context->stage == 1;
    if (!!views[SOON].data != (early || second) || !!views[LATE].data != second ||
        !!views[FOUND].data != second) /* with which `finish` runs */
        return hd_body_fail(context, "stage %d sees other values than it should", context->stage);
    if (second)
        *(int64_t *)context->header = ((const int64_t *)views[LATE].data)[0];
    else if (!early && *(const int64_t *)context->header == 0)
        return hd_body_fail(context, "the header is lost");
    looked++;
    return HD_OK;
}

static int look_finish(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    ((int64_t *)views[FOUND].data)[0] = *(const int64_t *)context->headers[0];
    return HD_OK;
}

static void get_look_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    (void)args;
    *subtasks_p =
        (struct hd_subtasks){.items = 1, .stages = 3, .early = 1, .header_bytes = sizeof(int64_t)};
}

static const struct hd_port look_ports[] = {
    [LATE] = {"late", "ints", .mode = HD_READ},
    [SOON] = {"soon", "ints", .mode = HD_READ, .early = true},
    [FOUND] = {"found", "ints", .mode = HD_UPDATE, .scope = HD_SCOPE_FINISH},
    {0}};
static const struct hd_verb verb_look = {.name = "look",
                                         .ports = look_ports,
                                         .get_subtasks = get_look_subtasks,
                                         .body = look,
                                         .finish = look_finish};

TEST(an_early_stage_does_not_wait_for_other_values)
{
    struct rank rank = {0};
    const char *reason;
    struct loaded_graph l =
        rank_load_with(&verb_hold, &verb_look,
                       "values:\n"
                       "  late: {type: ints}\n"
                       "  soon: {type: ints}\n"
                       "  found: {type: ints}\n"
                       "iteration:\n"
                       "  - hold: {updates: [late]}\n"
                       "  - look: {reads: [late: late, soon: soon], updates: [found]}\n"
                       "  - stop: {reads: [found], if: iteration >= 0, reason: limit}\n",
                       1, 6);
    const struct hd_session_options options = {
        .workers = 2, .scheduler = "lws", .ranks = 1, .watchdog_ns = 20000000000};
    rank_open(&rank, l.graph, options, 1);
    const int status = hd_executor_run(rank.executor, &reason);
    ck_assert_msg(status == HD_OK, "%s", hd_session_get_message(rank.session));
    ck_assert_int_eq(looked_while_held, 1);
    ck_assert_int_eq(looked, 3);
    rank_stop(&rank);
    loaded_graph_release(&l);
}
