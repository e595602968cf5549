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
    struct rank_graph l = rank_load(&hd_toy_registry, text, 2, 3);
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
    rank_stop(&rank);
    hd_reference_destroy(reference);
    rank_unload(&l);
}
