/* SPDX-License-Identifier: Apache-2.0 */
/* Guards and repeats from the configuration decide how often each step runs, and with which random
 * numbers. */
#include "graph/execute/execute.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/rank.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <string.h>

/* limit is 9, on is true, off is false; two iterations. */
static const char text[] = "values:\n"
                           "  outer: {type: ints}\n"
                           "  inner: {type: ints, per: shard}\n"
                           "  inmost: {type: ints}\n"
                           "  on: {type: ints}\n"
                           "  off: {type: ints}\n"
                           "  not_off: {type: ints}\n"
                           "  late: {type: ints}\n"
                           "iteration:\n"
                           "  - repeat: ceil($limit / 4)\n"
                           "    do:\n"
                           "      - bump: {updates: [outer]}\n"
                           "      - repeat: ceil($limit / 2)\n"
                           "        when: $on\n"
                           "        do:\n"
                           "          - bump: {updates: [inner], counts: inner}\n"
                           "          - repeat: floor($limit / 4)\n"
                           "            when: inner > 20 and not $off\n"
                           "            do: [bump: {updates: [inmost]}]\n"
                           "      - repeat: 7\n"
                           "        when: $off\n"
                           "        do: [bump: {updates: [off]}]\n"
                           "  - bump: {updates: [on], when: $on}\n"
                           "  - bump: {updates: [off], when: $off}\n"
                           "  - bump: {updates: [not_off], when: not $off and $on == 1}\n"
                           "  - bump: {updates: [late], every: ceil($limit / 2) inner}\n"
                           "  - barrier: {every: 2 iteration, when: $on}\n"
                           "  - stop: {if: iteration >= 1, reason: limit}\n";

static const struct {
    const char *name;
    int64_t versions;
} expected[] = {
    {"outer", 2 * 3}, {"inner", 2 * 3 * 5}, {"inmost", 10 * 2}, {"on", 2},
    {"off", 0},       {"not_off", 2},       {"late", 2},
};

TEST(configuration_counts, .runs = 2)
{
    struct rank rank = {0};
    const char *reason;
    struct loaded_graph l = rank_load(&hd_toy_registry, text, 2, 3);
    struct hd_reference *reference = hd_reference_run(l.graph);
    const struct hd_session_options options = {.sequential = _i == 0,
                                               .workers = 2,
                                               .scheduler = "lws",
                                               .ranks = 1,
                                               .watchdog_ns = 20000000000};
    rank_open(&rank, l.graph, options, 2);
    ck_assert_int_eq(hd_executor_run(rank.executor, &reason), HD_OK);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int value = hd_graph_find_value(l.graph, expected[i].name);
        ck_assert_msg(hd_executor_get_version(rank.executor, value) == expected[i].versions,
                      "'%s' has %lld versions", expected[i].name,
                      (long long)hd_executor_get_version(rank.executor, value));
    }
    ck_assert_int_eq(rank_compare(&rank, l.graph, reference), 0);
    /* A further run goes on with the next iteration, which stops again. */
    const int outer = hd_graph_find_value(l.graph, "outer");
    ck_assert_int_eq(hd_executor_run(rank.executor, &reason), HD_OK);
    ck_assert_int_eq(hd_executor_get_version(rank.executor, outer), 3 * 3);
    rank_stop(&rank);
    hd_reference_destroy(reference);
    loaded_graph_release(&l);
}

static int drop(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    return HD_OK;
}

static const struct hd_port need_ports[] = {{"a", NULL, .mode = HD_READ}, {0}};
static const struct hd_verb need = {
    .name = "need", .stream_id = 100, .ports = need_ports, .body = drop};

/* The steps' guards depend on what is counted at the run. */
TEST(a_step_waits_for_content, .runs = 4)
{
    static const char *const waits[] = {"size >= 6", "size >= 3"};
    char guarded[512];
    snprintf(guarded, sizeof guarded,
             "values:\n  n: {type: news}\n  s: {type: ints}\niteration:\n"
             "  - mix: {reads: [s], writes: [n], when: s.size >= 6}\n"
             "  - need: {reads: [n], when: s.%s}\n"
             "  - bump: {updates: [s]}\n  - stop: {if: iteration >= 3}\n",
             waits[_i % 2]);
    struct rank rank = {0};
    const char *reason;
    struct loaded_graph l = rank_load_with(&need, NULL, guarded, 2, 3);
    const struct hd_session_options options = {.sequential = _i / 2 == 0,
                                               .workers = 2,
                                               .scheduler = "lws",
                                               .ranks = 1,
                                               .watchdog_ns = 20000000000};
    rank_open(&rank, l.graph, options, 2);
    ck_assert_int_eq(hd_executor_run(rank.executor, &reason), _i % 2 ? HD_ERR_INPUT : HD_OK);
    if (_i % 2)
        check_names(hd_session_get_message(rank.session), ":6:20: |'n'|iteration 1|need");
    rank_stop(&rank);
    loaded_graph_release(&l);
}
