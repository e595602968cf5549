/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes in graph files: each is found at its place and names what it is about, and the nearest
 * valid name where there is one. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/toy.h"
#include "tests/graph/loaded_graph.h"
#include "tests/harness/check.h"

#include <stdlib.h>

#define VALUES                                                                                     \
    "values:\n"                                                                                    \
    "  s: {type: ints, per: shard}\n"                                                              \
    "  g: {type: ints}\n"                                                                          \
    "  f: {type: floats, per: shard}\n"                                                            \
    "  r: {type: ints, placement: rank0}\n"                                                        \
    "  n: {type: news}\n"                                                                          \
    "iteration:\n"
/* Names every value once, so that only the row's own mistake is left. */
#define REST                                                                                       \
    "  - bump: {updates: [s]}\n"                                                                   \
    "  - bump: {updates: [g]}\n"                                                                   \
    "  - bump: {updates: [r]}\n"                                                                   \
    "  - blend: {reads: [a: s, b: s], updates: [f]}\n"                                             \
    "  - mix: {reads: [g], writes: [n]}\n"                                                         \
    "  - stop: {if: iteration >= 1}\n"

/* A mean with a residual. */
#define ROUNDED(exchange)                                                                          \
    "strategy: {n: 1, word: some}\n"                                                               \
    "values:\n"                                                                                    \
    "  g: {type: ints}\n"                                                                          \
    "  lea: {type: sums, per: shard}\n"                                                            \
    "  m: {type: sums}\n"                                                                          \
    "  residual: {type: residual, per: shard}\n"                                                   \
    "iteration:\n"                                                                                 \
    "  - spread: {reads: [a: g, b: g], writes: [lea]}\n"                                           \
    "  - mean: {reads: [lea], updates: [residual], writes: [m], " exchange "}\n"                   \
    "  - stop: {if: iteration >= 1}\n"

static const struct {
    const char *text;
    int line, column;
    const char *names;
} rows[] = {
    /* structure */
    {"", 0, 0, ""},
    {"42\n", 1, 1, "'42'"},
    {"[a, b]\n", 1, 1, "a map|a list"},
    {"values: {}\n", 1, 1, "`iteration:`"},
    {"iteration: []\n", 1, 1, "`values:`"},
    {"valeus: {}\nvalues: {}\niteration: []\n", 1, 1, "'values'?"},
    {"values: [1]\niteration: []\n", 1, 9, "values|a map"},
    {"values: {}\niteration: {a: 1}\n", 2, 12, "steps|a list"},
    {"values: {}\niteration: [1]\n", 2, 13, "verb"},
    {VALUES "  - {bump: {updates: [s]}, mix: {}}\n" REST, 8, 5, "one key|found 2"},
    {"values: &a {x: *a}\niteration: []\n", 1, 16, ""},
    {"values: {a: {type: ints}\niteration: []\n", 2, 1, ""},
    {"\x01\x02\xff\xfe rubbish", 1, 0, ""},
    {"a\0b", 0, 0, ""},

    /* values */
    {"values:\n  a: {type: intz}\niteration: []\n", 2, 13, "'ints'?"},
    {"values:\n  a: {}\niteration: []\n", 2, 6, "type"},
    {"values:\n  a: {type: ints, pre: shard}\niteration: []\n", 2, 19, "'per'?"},
    {"values:\n  a: {type: ints, per: rank}\niteration: []\n", 2, 24, "'shard'"},
    {"values:\n  a: {type: ints, placement: rank1}\niteration: []\n", 2, 30, "'rank0'"},
    {"values:\n  a: {type: ints, per: shard, placement: rank0}\niteration: []\n", 2, 42,
     "not both"},
    {"values:\n  a: {type: ints, slots: 0}\niteration: []\n", 2, 26, "[1, 64]"},
    {"values:\n  a: {type: ints, slots: 1e30}\niteration: []\n", 2, 26, "[1, 64]"},
    {"values:\n  a: {type: ints, slots: many}\niteration: []\n", 2, 26, "many"},
    {"values:\n  a b: {type: ints}\niteration: []\n", 2, 3, "letters, digits"},
    {"values:\n  a: {type: ints, init: b}\n  b: {type: ints}\niteration: []\n", 2, 25,
     "'b'|declared"},
    {"values:\n  a: {type: ints, of: bb}\n  b: {type: ints}\niteration: []\n", 2, 23, "'b'?"},
    {"values:\n  a: {type: ints}\n  a: {type: ints}\niteration: []\n", 3, 3, ""},
    {"values:\n  a: {type: ints}\n  b: {type: floats, init: a}\niteration:\n"
     "  - mix: {reads: [a], writes: [b]}\n",
     3, 3, "'a' of type ints"},
    {"values:\n  a: {type: ints}\niteration: [stop: {if: iteration > 1}]\n", 2, 3, "'a'"},
    {"values:\n  a: {type: ints, slots: 2}\niteration: [bump: {updates: [a]}]\n", 2, 3, "2 slots"},
    {"values:\n  a: {type: ints, when: b.size}\niteration: []\n", 2, 25, "b.size"},
    {"values:\n  a: {type: intz, when: 0}\niteration: []\n", 2, 13, "'ints'?"},
    {"values:\n  a: {type: ints, when: 0}\n  b: {type: ints, init: a}\niteration: []\n", 3, 25,
     "'a'|`when`"},
    {VALUES "  - stop: {reads: [a], if: a.first > 0}\n" REST, 8, 20, "'a'"},

    /* steps */
    {VALUES "  - bmup: {updates: [s]}\n" REST, 8, 5, "'bump'?"},
    {VALUES "  - bump: {update: [s]}\n" REST, 8, 12, "'updates'?"},
    {VALUES "  - bump: {updates: s}\n" REST, 8, 21, "a list"},
    {VALUES "  - bump: {updates: [ss]}\n" REST, 8, 22, "'ss'"},
    {VALUES "  - bump: {updates: [f]}\n" REST, 8, 22, "`updates`"},
    {VALUES "  - bump: {reads: [s]}\n" REST, 8, 20, "`reads`"},
    {VALUES "  - bump: {}\n" REST, 8, 5, "type ints|`updates`"},
    {VALUES "  - blend: {reads: [a: s, c: s], updates: [s]}\n" REST, 8, 27, "port 'c'"},
    {VALUES "  - blend: {reads: [a: s, b: s], updates: [s]}\n" REST, 8, 44, "'s'|once"},
    {VALUES "  - bump: {updates: [s], if: 1}\n" REST, 8, 26, "'if'"},
    {VALUES "  - bump: 3\n" REST, 8, 11, "a map"},

    /* placement */
    {VALUES "  - mix: {reads: [s], writes: [n]}\n" REST, 8, 32, "collective"},
    {VALUES "  - mix: {reads: [s], writes: [r]}\n" REST, 8, 19, "shard value 's'"},
    {VALUES "  - mix: {reads: [r], writes: [n]}\n" REST, 8, 32, "collective"},
    {VALUES "  - sum: {reads: [g], writes: [n]}\n" REST, 8, 5, "type ints"},
    {VALUES "  - sum: {reads: [s], writes: [s]}\n" REST, 8, 0, ""},
    {VALUES "  - sum: {reads: [r], writes: [g]}\n" REST, 8, 19, "shards"},
    {VALUES "  - broadcast: {reads: [g], writes: [g]}\n" REST, 8, 0, ""},
    {VALUES "  - sum: {reads: [s], writes: [f]}\n" REST, 8, 5, "type floats"},
    {VALUES "  - reduce: {reads: [s], writes: [r]}\n" REST, 8, 5, "reduce|'op'|mean|sum|max|min"},
    {VALUES "  - reduce: {reads: [s], writes: [r], op: median}\n" REST, 8, 43,
     "op|mean|sum|max|min|'median'"},
    {VALUES "  - reduce: {reads: [s], writes: [g], op: mean}\n" REST, 8, 35,
     "reduce|rank0|'g' is global"},
    {VALUES "  - reduce: {reads: [g], writes: [r], op: mean}\n" REST, 8, 22, "shards"},
    {VALUES "  - sum: {reads: [s], writes: [r]}\n" REST, 8, 32, "sum|global value"},
    {VALUES "  - sum: {reads: [s], writes: [g], op: mean}\n" REST, 8, 36, "'op'"},
    {"values:\n  g: {type: ints}\n  lea: {type: sums, per: shard}\n  r: {type: sums, placement: "
     "rank0}\n"
     "iteration:\n  - spread: {reads: [a: g, b: g], writes: [lea]}\n"
     "  - reduce: {reads: [lea], writes: [r], op: max}\n",
     7, 45, "sums ('lea')|sum, mean|max"},
    {VALUES "  - sum: {reads: [s], writes: [g], exchange: bf16}\n" REST, 8, 36, "'exchange'"},
    {VALUES "  - mean: {reads: [s], writes: [g], exchange: bf8}\n" REST, 8, 47,
     "f32|bf16|f16|int8|'bf8'"},
    {VALUES "  - mean: {reads: [s], writes: [g], exchange: bf16}\n" REST, 8, 5,
     "gradients|bf16|'s'|ints"},
    {ROUNDED("exchange: f32"), 9, 5, "'residual'|f32"},
    {ROUNDED("every: 1 iteration"), 9, 5, "'residual'|f32"},
    {ROUNDED("exchange: $strategy.n"), 9, 70, "$strategy.n"},
    {ROUNDED("exchange: $strategy.word"), 9, 70, "'some'"},
    {VALUES "  - stop: {reads: [s], if: iteration > 1}\n" REST, 8, 20, "shard value"},
    /* With this seed the name has more than one partial, as two thirds of all names. */
    {"values:\n  g: {type: ints}\n  lea: {type: sums, per: shard}\n  sum: {type: sums}\n"
     "iteration:\n  - spread: {reads: [a: g, b: g], writes: [lea]}\n"
     "  - broadcast: {reads: [lea], writes: [sum]}\n",
     7, 5, "partials, 'sum' of 1"},
    {VALUES "  - stop: {reads: [r], if: iteration > 1}\n" REST, 8, 20, "broadcast"},
    {"values:\n  w: {type: floats, per: shard, bucket_mb: 3}\n  m: {type: floats}\n"
     "iteration:\n  - mean: {reads: [w], writes: [m]}\n",
     5, 33, "mean|'w' has 3 buckets|'m' 1"},

    /* lags, guards, expressions */
    {VALUES "  - mix: {reads: [g@1], writes: [n]}\n" REST, 8, 20, "'@-'"},
    {VALUES "  - mix: {reads: [g@-x], writes: [n]}\n" REST, 8, 22, "x"},
    {VALUES "  - mix: {reads: [g@--1], writes: [n]}\n" REST, 8, 22, "[0, 1000]"},
    {VALUES "  - mix: {reads: [g@-1.5], writes: [n]}\n" REST, 8, 22, "[0, 1000]"},
    {VALUES "  - bump: {updates: [s@-1]}\n" REST, 8, 23, "lag"},
    {VALUES "  - repeat: 2\n    do: [mix: {reads: [g@-1], writes: [n]}]\n" REST, 9, 25, "repeat"},
    {VALUES "  - repeat: 0\n    do: [bump: {updates: [s]}]\n" REST, 8, 13, "[1, 1000000000]"},
    {VALUES "  - repeat: $limt\n    do: [bump: {updates: [s]}]\n" REST, 8, 13, "limit"},
    {VALUES "  - repeat: 2\n" REST, 8, 5, "`do:`"},
    {VALUES "  - repeat: 2\n    doo: []\n    do: []\n" REST, 9, 5, "'do'?"},
    {VALUES "  - bump: {updates: [s], every: 3}\n" REST, 8, 33, "counter"},
    {VALUES "  - bump: {updates: [s], every: 3 itration}\n" REST, 8, 35, "'iteration'?"},
    {VALUES "  - bump: {updates: [s], every: 0 iteration}\n" REST, 8, 33, "every"},
    {VALUES "  - bump: {updates: [s], first: 0}\n" REST, 8, 33, "`every`"},
    {VALUES "  - bump: {updates: [s], when: s.siz >= 2}\n" REST, 8, 32, "size"},
    {VALUES "  - bump: {updates: [s], when: g.first >= 2}\n" REST, 8, 32, "g.first"},
    {VALUES "  - bump: {updates: [s], when: 1 +}\n" REST, 8, 0, ""},
    {VALUES "  - stop: {reads: [g]}\n" REST, 8, 5, "condition"},
    {VALUES "  - stop: {if: g.first > 1}\n" REST, 8, 16, "'g'|`reads`"},
    {VALUES "  - stop: {reads: [g], if: g.frist > 1}\n" REST, 8, 28, "first"},
    {VALUES "  - stop: {if: $nothing > 1}\n" REST, 8, 16, "nothing"},
};

static int load(const char *text, size_t bytes, struct loaded_graph *l)
{
    const struct hd_graph_source source = {.registry = &hd_toy_registry, .shards = 2};
    return loaded_graph_load(l, &source, "g.yaml", text, bytes);
}

TEST(a_mistake_is_found_at_its_place, .runs = COUNT(rows))
{
    struct loaded_graph l;
    size_t bytes = strlen(rows[_i].text);
    if (rows[_i].text[0] == 'a' && bytes == 1)
        bytes = 3; /* the row with a NUL byte */
    ck_assert_int_eq(load(rows[_i].text, bytes, &l), HD_ERR_INPUT);
    ck_assert_int_ge(hd_diag_count(l.diag), 1);
    char place[64] = "g.yaml";
    if (rows[_i].line && rows[_i].column)
        snprintf(place, sizeof place, "g.yaml:%d:%d:", rows[_i].line, rows[_i].column);
    else if (rows[_i].line)
        snprintf(place, sizeof place, "g.yaml:%d:", rows[_i].line);
    const char *line = hd_diag_get_line(l.diag, 0);
    for (int64_t i = 1; i < hd_diag_count(l.diag) && !strstr(line, place); i++)
        line = hd_diag_get_line(l.diag, i);
    check_names(line, place);
    check_names(line, rows[_i].names);
    loaded_graph_release(&l);
}

TEST(several_mistakes_are_told_at_once)
{
    static const char text[] = "values:\n"
                               "  a: {type: intz}\n"
                               "  b: {type: ints, slots: -1}\n"
                               "iteration:\n"
                               "  - bmup: {updates: [b]}\n"
                               "  - bump: {updates: [c]}\n"
                               "  - repeat: x\n";
    struct loaded_graph l;
    ck_assert_int_eq(load(text, strlen(text), &l), HD_ERR_INPUT);
    ck_assert_int_ge(hd_diag_count(l.diag), 5);
    loaded_graph_release(&l);
}

TEST(the_rows_rest_is_right)
{
    struct loaded_graph l;
    ck_assert_int_eq(load(VALUES REST, strlen(VALUES REST), &l), HD_OK);
    loaded_graph_release(&l);
}

/* Without a value, steps that need it or read nothing else are left out, and it is left out of the
 * others. */
TEST(a_graph_is_without_a_value_and_what_needs_it, .runs = 2)
{
    char text[1024];
    struct loaded_graph l;
    snprintf(text, sizeof text,
             "values:\n  s: {type: ints}\n  a: {type: ints, when: $%s and 2 > 1}\n"
             "  to: {type: ints}\n  b: {type: ints, when: $off, init: a}\niteration:\n"
             "  - bump: {updates: [a]}\n  - bump: {updates: [s]}\n"
             "  - repeat: 2\n    do:\n      - mix: {reads: [a], writes: [to]}\n"
             "      - mix: {reads: [s], writes: [to]}\n"
             "  - note: {reads: [s, again: a], updates: [to]}\n"
             "  - note: {reads: [s, again: b], updates: [to]}\n"
             "  - stop: {reads: [s, a], if: iteration >= 1}\n"
             "  - stop: {reads: [a], if: iteration >= 2}\n",
             _i ? "on" : "off");
    ck_assert_int_eq(load(text, strlen(text), &l), HD_OK);
    const struct hd_graph *graph = l.graph;
    ck_assert_int_eq(graph->n_values, 2 + _i);
    ck_assert_int_eq(graph->n_steps, 5 + 2 * _i);
    ck_assert_int_eq(graph->total_steps, 6 + 3 * _i);
    ck_assert_int_eq(graph->steps[4 + _i].n_refs, 1 + _i);
    ck_assert_int_eq(graph->steps[1 + _i].n_steps, 1 + _i);
    ck_assert_int_eq(graph->steps[2 + _i].refs[1].value, _i ? 1 : HD_NO_VALUE);
    ck_assert_int_eq(graph->steps[3 + _i].refs[1].value, HD_NO_VALUE);
    for (int i = 1; i < graph->n_steps; i++)
        ck_assert_int_gt(graph->steps[i].index, graph->steps[i - 1].index);
    loaded_graph_release(&l);
}

static void drop(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
}

TEST(no_memory_is_an_error_not_a_crash)
{
    int status = HD_ERR_NOMEM;
    hd_log_set_sink(drop, NULL);
    for (int64_t n = 1; status != HD_OK; n++) {
        struct loaded_graph l;
        ck_assert_int_lt(n, 100000);
        hd_alloc_fail_nth(n);
        status = load(VALUES REST, strlen(VALUES REST), &l);
        hd_alloc_fail_nth(0);
        ck_assert(status == HD_OK || status == HD_ERR_NOMEM || status == HD_ERR_INPUT);
        loaded_graph_release(&l);
    }
    hd_log_set_sink(NULL, NULL);
}
