/* SPDX-License-Identifier: Apache-2.0 */
/* While a long background step runs, iterations go on, up to the one whose lagged reader needs the
 * result, on one worker and on several; the reader sees the exact result. */
#include "graph/execute/execute.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <stdatomic.h>
#include <string.h>

enum { INTS = HD_TOY_INTS, DWELLS_MAX = 64 };

/* -- Verbs that watch each other --------------------------------------------------------------- */

static atomic_int steps; /* bodies of `step` that have ended; one an iteration */
static bool slow;        /* whether bodies take time */

/* The dwells of iterations 0 to last_needed go on until this many steps of their own and later
 * iterations have ended, or until a time limit. */
enum { PATIENCE_NS = 2000000000 };
static int needed, last_needed;
static int passed[DWELLS_MAX]; /* how many had, by iteration of the dwell */
static int64_t began_ns[DWELLS_MAX];

static void spin(int64_t ns)
{
    int64_t end = hd_clock_get_ns() + ns;
    while (slow && hd_clock_get_ns() < end)
        ;
}

static bool goes_on(int64_t iteration)
{
    return slow && iteration <= last_needed && steps - iteration < needed &&
           hd_clock_get_ns() - began_ns[iteration] < PATIENCE_NS;
}

/* The result depends on every element of what it reads, not on the number of calls. */
static int dwell(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t *to = views[1].data, *next = &to[INTS - 1];
    if (!context->again) {
        memset(to, 0, INTS * sizeof *to);
        began_ns[context->iteration] = hd_clock_get_ns();
    }
    spin(1000000);
    if (*next < INTS)
        to[0] = (to[0] * 31 + hd_toy_element(&views[0], (int)(*next)++)) % 1000003;
    if (*next < INTS || goes_on(context->iteration))
        return HD_AGAIN;
    passed[context->iteration] = steps - (int)context->iteration;
    return HD_OK;
}

static int step(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t *to = views[0].data;
    spin(500000);
    for (int i = 0; i < INTS; i++)
        to[i] = (to[i] * 17 + context->iteration + i) % 1000003;
    steps++;
    return HD_OK;
}

static int keep(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    int64_t *to = views[1].data;
    to[0] = (to[0] * 13 + hd_toy_element(&views[0], 0)) % 1000003;
    return HD_OK;
}

static const struct hd_port dwell_ports[] = {
    {"a", NULL, .mode = HD_READ}, {"to", "ints", .mode = HD_WRITE}, {0}};
static const struct hd_port step_ports[] = {{"to", NULL, .mode = HD_UPDATE}, {0}};
static const struct hd_port keep_ports[] = {
    {"a", NULL, .mode = HD_READ}, {"to", NULL, .mode = HD_UPDATE}, {0}};
static const struct hd_verb verb_dwell = {.name = "dwell", .ports = dwell_ports, .body = dwell};
static const struct hd_verb verb_step = {.name = "step", .ports = step_ports, .body = step};
static const struct hd_verb verb_keep = {.name = "keep", .ports = keep_ports, .body = keep};

/* -- Runs -------------------------------------------------------------------------------------- */

/* `seen` is what the lagged reader has made of all results so far. */
static const char sparse[] =
    "values:\n"
    "  w: {type: ints}\n"
    "  result: {type: ints}\n"
    "  seen: {type: ints}\n"
    "iteration:\n"
    "  - dwell: {every: 4 iteration, first: 0, reads: [w], writes: [result]}\n"
    "  - keep: {reads: [result@-2], updates: [seen]}\n"
    "  - step: {updates: [w]}\n"
    "  - stop: {if: iteration >= 11, reason: limit}\n";

static const char dense[] = "values:\n"
                            "  w: {type: ints}\n"
                            "  result: {type: ints}\n"
                            "  seen: {type: ints}\n"
                            "iteration:\n"
                            "  - dwell: {reads: [w], writes: [result]}\n"
                            "  - keep: {reads: [result@-4], updates: [seen]}\n"
                            "  - step: {updates: [w]}\n"
                            "  - stop: {if: iteration >= 7, reason: limit}\n";

static void run(const char *text, const char *scheduler, int workers, int window, int pass,
                int last)
{
    const struct hd_verb *verbs[] = {&verb_dwell, &verb_step, &verb_keep, NULL, NULL};
    for (int i = 0; hd_toy_registry.verbs[i]; i++)
        if (strcmp(hd_toy_registry.verbs[i]->name, "stop") == 0)
            verbs[3] = hd_toy_registry.verbs[i];
    const struct hd_registry registry = {hd_toy_registry.types, verbs, hd_toy_registry.keys};
    struct rank rank = {0};
    const char *reason;
    struct loaded_graph l = rank_load(&registry, text, 1, 1);
    slow = false;
    struct hd_reference *reference = hd_reference_run(l.graph);
    slow = true;
    steps = 0;
    needed = pass;
    last_needed = last;
    memset(passed, 0, sizeof passed);
    const struct hd_session_options options = {.sequential = scheduler == NULL,
                                               .workers = workers,
                                               .scheduler = scheduler,
                                               .ranks = 1,
                                               .watchdog_ns = 20000000000};
    rank_open(&rank, l.graph, options, window);
    ck_assert_int_eq(hd_executor_run(rank.executor, &reason), HD_OK);
    ck_assert_int_eq(rank_compare(&rank, l.graph, reference), 0);
    rank_stop(&rank);
    hd_reference_destroy(reference);
    loaded_graph_release(&l);
}

static const char *const schedulers[] = {"lws", "eager", "random", "prio",        "modular-prio",
                                         "ws",  "dm",    "dmdas",  "modular-heft"};
enum { SCHEDULERS = sizeof schedulers / sizeof *schedulers };

/* The dwell of iteration i is read in iteration i + 3: the steps of iterations i to i + 2 pass it,
 * that of i + 3 may. */
TEST(iterations_go_on_up_to_the_lag, .runs = 2 * SCHEDULERS)
{
    run(sparse, schedulers[_i / 2], 1 + _i % 2, 2, 3, 8);
    for (int i = 0; i + 3 <= 11; i += 4)
        ck_assert_msg(passed[i] >= 3, "%s, %d workers: %d steps passed the dwell of iteration %d",
                      schedulers[_i / 2], 1 + _i % 2, passed[i], i);
}

/* A dwell in every iteration is read five iterations later, and makes no step wait before that. */
TEST(several_may_be_under_way, .runs = 2 * SCHEDULERS)
{
    run(dense, schedulers[_i / 2], 1 + _i % 2, 4, 4, 0);
    ck_assert_msg(passed[0] >= 4, "%s, %d workers: %d steps passed the first dwell",
                  schedulers[_i / 2], 1 + _i % 2, passed[0]);
}

TEST(the_sequential_executor_takes_them_as_they_come)
{
    run(sparse, NULL, 1, 1, 0, 0);
    for (int i = 0; i < 11; i += 4)
        ck_assert_int_eq(passed[i], 0);
}
