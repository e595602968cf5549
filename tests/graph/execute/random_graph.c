/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/graph/execute/random_graph.h"

#include "runtime/base/alloc.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* -- The generator: a graph file from a seed --------------------------------------------------- */

enum { VALUES_MAX = 9, TEXT_BYTES = 1 << 14 };
enum { SHARD, GLOBAL, RANK0 };
/* The values of a sharded update, after the others: partials, their mean, and the values that it
 * changes. */
enum { PARTIALS, MEAN, CHANGED, STATE, UPDATE_VALUES };
/* Then the values that a shard's own partials change, and a copy for all. */
enum { LOCAL, LOCAL_STATE, SHOWN, LOCAL_VALUES };
/* Then the values that steps by items take. */
enum { ROWS = 3 };
/* The kinds of values that `pick` chooses from. */
enum { ANY = -1, INTS, LEAFY };

struct generator {
    uint64_t state;
    char steps[TEXT_BYTES];
    int n_values;
    struct {
        bool floats, news, sums, rows, used, updated, written;
        bool sharded_update; /* other steps seldom change it */
        int place, buckets;
    } values[VALUES_MAX + UPDATE_VALUES + LOCAL_VALUES + ROWS];
    bool ticks; /* some step counts `tick` */
    bool has_update, has_residual;
    int sharded_updates, first_update_value;
    int first_local; /* -1: none */
};

static uint64_t draw(struct generator *g, uint64_t n)
{
    g->state ^= g->state << 13;
    g->state ^= g->state >> 7;
    g->state ^= g->state << 17;
    return (g->state >> 11) % n;
}

static void append(char *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t used = strlen(text);
    vsnprintf(text + used, TEXT_BYTES - used, format, args);
    va_end(args);
}

static int pick(struct generator *g, unsigned places, int type)
{
    for (int tries = 0; tries < 40; tries++) {
        int v = (int)draw(g, (uint64_t)g->n_values);
        if (g->has_update && v == g->first_update_value + MEAN && draw(g, 8))
            continue; /* who reads it has it stored */
        bool is_int_value =
            !g->values[v].floats && !g->values[v].news && !g->values[v].sums && !g->values[v].rows;
        if ((places >> g->values[v].place & 1) &&
            (type == ANY || (type == INTS ? is_int_value : g->values[v].rows)))
            return v;
    }
    return -1;
}

static void name(struct generator *g, int v, bool lag_allowed, char text[16])
{
    g->values[v].used = true;
    int lag = lag_allowed && draw(g, 3) == 0 ? 1 + (int)draw(g, 3) : 0;
    snprintf(text, 16, lag ? "v%d@-%d" : "v%d", v, lag);
}

static void guard(struct generator *g, bool collective)
{
    switch (draw(g, 6)) {
    case 0:
        append(g->steps, ", when: iteration >= %d", (int)draw(g, 4));
        break;
    case 1:
        append(g->steps, ", every: %d iteration%s", 1 + (int)draw(g, 3),
               draw(g, 2) ? ", first: 0" : "");
        break;
    case 2:
        if (g->ticks)
            append(g->steps, ", every: %d tick, first: %d", 1 + (int)draw(g, 4), (int)draw(g, 3));
        break;
    default:
        break;
    }
    if (!collective && draw(g, 5) == 0) {
        append(g->steps, ", counts: tick");
        g->ticks = true;
    }
}

static unsigned readable_by(int place)
{
    return place == SHARD    ? 1u << SHARD | 1u << GLOBAL
           : place == GLOBAL ? 1u << GLOBAL
                             : 1u << RANK0 | 1u << GLOBAL;
}

/* Returns whether a step had better not change v: most sharded updates should stay ones. */
static bool spared(struct generator *g, int v)
{
    return g->values[v].sharded_update && draw(g, 8) != 0;
}

static bool add_collective(struct generator *g, const char *pad, bool lag)
{
    enum { SUM, MEAN_OF, BROADCAST, MAX, MIN, REDUCE, KINDS };
    static const char *const verbs[] = {"sum", "mean", "broadcast", "max", "min", "reduce"};
    const int kind = (int)draw(g, KINDS);
    const int op = (int)draw(g, 4); /* of a reduce */
    int from = pick(g, kind == BROADCAST ? 1u << SHARD | 1u << RANK0 : 1u << SHARD, ANY);
    int to = pick(g, kind == REDUCE ? 1u << RANK0 : 1u << GLOBAL, ANY);
    if (from < 0 || to < 0 || g->values[from].floats != g->values[to].floats ||
        g->values[from].news != g->values[to].news || g->values[from].sums != g->values[to].sums ||
        g->values[from].rows != g->values[to].rows ||
        (g->values[from].sums && kind > MEAN_OF && (kind != REDUCE || op > 1)) || spared(g, to))
        return false;
    g->values[to].buckets = g->values[from].buckets;
    char a[16], b[16];
    g->values[to].written = true;
    name(g, from, lag, a);
    name(g, to, false, b);
    append(g->steps, "%s- %s: {reads: [%s], writes: [%s]", pad, verbs[kind], a, b);
    if (kind == REDUCE)
        append(g->steps, ", op: %s", (const char *[]){"sum", "mean", "max", "min"}[op]);
    guard(g, true);
    append(g->steps, "}\n");
    return true;
}

static bool add_task(struct generator *g, const char *pad, bool lag)
{
    int to = pick(g, 7, ANY);
    if (to < 0)
        return false;
    unsigned places = readable_by(g->values[to].place);
    int a = pick(g, places, ANY), b = pick(g, places, ANY);
    char ta[16], tb[16], tt[16];
    if (a < 0 || b < 0 || a == to || b == to || g->values[to].sums || spared(g, to))
        return false;
    switch (draw(g, 5)) {
    case 0:
        g->values[to].written = true;
        name(g, a, lag, ta);
        name(g, to, false, tt);
        append(g->steps, "%s- mix: {reads: [%s], writes: [%s]", pad, ta, tt);
        break;
    case 1:
        if (g->values[to].floats || g->values[to].news || g->values[to].rows)
            return false;
        g->values[to].updated = true;
        name(g, to, false, tt);
        append(g->steps, "%s- bump: {updates: [%s]", pad, tt);
        break;
    case 2:
        g->values[to].updated = true;
        name(g, a, lag, ta);
        name(g, b, lag, tb);
        name(g, to, false, tt);
        append(g->steps, "%s- note: {reads: [a: %s, again: %s], updates: [%s]", pad, ta, tb, tt);
        break;
    case 3:
        if (g->values[to].floats || g->values[to].news || g->values[to].rows)
            return false;
        g->values[to].updated = true;
        name(g, a, lag, ta);
        name(g, to, false, tt);
        append(g->steps, "%s- creep: {reads: [%s], updates: [%s]", pad, ta, tt);
        break;
    default:
        g->values[to].updated = true;
        name(g, a, lag, ta);
        name(g, b, lag, tb);
        name(g, to, false, tt);
        append(g->steps, "%s- blend: {reads: [a: %s, b: %s], updates: [%s]", pad, ta, tb, tt);
        break;
    }
    guard(g, false);
    append(g->steps, "}\n");
    return true;
}

/* Has some means rounded, half of these with a residual. */
static void add_exchange(struct generator *g)
{
    const uint64_t kind = draw(g, 20);
    if (kind < 6)
        append(g->steps, ", exchange: %s", (const char *[]){"bf16", "f16", "int8"}[kind / 2]);
    if (kind < 6 && kind % 2)
        append(g->steps, ", updates: [residual]");
    g->has_residual |= kind < 6 && kind % 2;
    append(g->steps, "}\n");
}

/* Adds a gradient in subtasks, its mean, and a step that uses the mean: a sharded update unless
 * something forbids it. */
static bool add_update(struct generator *g, const char *pad, bool lag)
{
    const int first = g->first_update_value;
    int a = pick(g, 1u << SHARD | 1u << GLOBAL, ANY), tally = pick(g, 1u << SHARD, INTS);
    int b = draw(g, 2) ? first + CHANGED : pick(g, 1u << SHARD | 1u << GLOBAL, ANY);
    int hint = pick(g, 1u << GLOBAL, INTS);
    char ta[16], tb[16], th[16];
    if (!g->has_update || a < 0 || b < 0 || a == first + PARTIALS || b == first + PARTIALS ||
        (g->sharded_updates > 0 && draw(g, 4)))
        return false;
    g->sharded_updates++;
    for (int i = 0; i < UPDATE_VALUES; i++)
        g->values[first + i].used = true;
    g->values[first + CHANGED].updated = g->values[first + STATE].updated = true;
    name(g, a, lag, ta);
    name(g, b, lag, tb);
    const bool whole = draw(g, 3) == 0;
    append(g->steps, "%s- %s: {reads: [a: %s, b: %s], writes: [v%d]", pad,
           whole ? "fill" : "spread", ta, tb, first + PARTIALS);
    if (!whole && tally >= 0 && tally != a && tally != b && draw(g, 2)) {
        g->values[tally].updated = g->values[tally].used = true;
        append(g->steps, ", updates: [v%d]", tally);
    }
    if (draw(g, 12) == 0)
        guard(g, false);
    append(g->steps, "}\n%s- mean: {reads: [v%d], writes: [v%d]", pad, first + PARTIALS,
           first + MEAN);
    add_exchange(g);
    append(g->steps, "%s- apply: {reads: [mean: v%d", pad, first + MEAN);
    if (hint >= 0 && draw(g, 2)) {
        name(g, hint, lag, th);
        append(g->steps, ", hint: %s", th);
    }
    append(g->steps, "], updates: [to: v%d, state: v%d]", first + CHANGED, first + STATE);
    if (draw(g, 12) == 0)
        guard(g, false);
    else if (draw(g, 2))
        append(g->steps, ", counts: update");
    append(g->steps, "}\n");
    return true;
}

/* Adds a step on rows by items and stages, with any of its ports left out. */
static bool add_weave(struct generator *g, const char *pad, bool lag)
{
    const int state = pick(g, 7, LEAFY);
    if (state < 0)
        return false;
    const unsigned here = 1u << g->values[state].place;
    const unsigned places = readable_by(g->values[state].place);
    const int a = pick(g, places, ANY), every = pick(g, places, ANY);
    const int from = pick(g, places, LEAFY), to = pick(g, here, LEAFY);
    const int tally = pick(g, here, INTS);
    char ta[16], te[16], tf[16];
    if (a < 0 || every < 0 || a == state || every == state || a == to || every == to)
        return false;
    g->values[state].used = g->values[state].updated = true;
    name(g, a, lag, ta);
    name(g, every, lag, te);
    append(g->steps, "%s- weave: {reads: [a: %s, every: %s", pad, ta, te);
    if (from >= 0 && from != state && from != to && draw(g, 2)) {
        name(g, from, lag, tf);
        append(g->steps, ", from: %s", tf);
    }
    append(g->steps, "], updates: [state: v%d", state);
    if (tally >= 0 && tally != a && tally != every && draw(g, 2)) {
        g->values[tally].used = g->values[tally].updated = true;
        append(g->steps, ", tally: v%d", tally);
    }
    append(g->steps, "]");
    if (to >= 0 && to != state && draw(g, 2)) {
        g->values[to].used = true;
        append(g->steps, ", writes: [to: v%d]", to);
    }
    guard(g, false);
    append(g->steps, "}\n");
    return true;
}

/* Adds a step that updates every shard by itself, bucket by bucket, and sometimes a broadcast of
 * shard 0's result. */
static bool add_alone(struct generator *g, const char *pad, bool lag)
{
    const int local = g->first_local + LOCAL, hint = pick(g, 1u << SHARD, INTS);
    if (g->first_local < 0 ||
        (!g->values[g->first_update_value + PARTIALS].used && !add_update(g, pad, lag)))
        return false;
    for (int i = 0; i < LOCAL_VALUES; i++) {
        g->values[g->first_local + i].used = true;
        g->values[g->first_local + i].updated |= i != SHOWN;
    }
    append(g->steps, "%s- apply: {reads: [mean: v%d", pad, g->first_update_value + PARTIALS);
    if (hint >= 0 && draw(g, 2)) {
        g->values[hint].used = true;
        append(g->steps, ", hint: v%d", hint);
    }
    append(g->steps, "], updates: [to: v%d, state: v%d]", local, g->first_local + LOCAL_STATE);
    if (draw(g, 2))
        append(g->steps, ", counts: update");
    append(g->steps, "}\n%s- broadcast: {reads: [v%d], writes: [v%d]", pad, local,
           g->first_local + SHOWN);
    guard(g, true);
    append(g->steps, "}\n");
    return true;
}

static bool add_stop(struct generator *g, const char *pad, bool lag)
{
    int v = pick(g, 1u << GLOBAL, INTS);
    if (v < 0)
        return false;
    char text[16];
    name(g, v, lag, text);
    append(g->steps,
           "%s- stop: {reads: [%s], if: v%d.first >= %d and iteration >= %d, reason: early}\n", pad,
           text, v, 700 + (int)draw(g, 290), (int)draw(g, 4));
    return true;
}

static void add_steps(struct generator *g, int n, int depth);

static void add_repeat(struct generator *g, const char *pad, int depth)
{
    int sized = pick(g, 7, INTS);
    append(g->steps, "%s- repeat: %d\n", pad, 1 + (int)draw(g, 3));
    if (sized >= 0 && g->values[sized].used && draw(g, 2))
        append(g->steps, "%s  when: v%d.size >= %d or iteration > 2\n", pad, sized,
               (int)draw(g, 12));
    append(g->steps, "%s  do:\n", pad);
    add_steps(g, 1 + (int)draw(g, 3), depth + 1);
    append(g->steps, "%s    - barrier: {}\n", pad); /* a repeat is never empty */
}

static void add_steps(struct generator *g, int n, int depth)
{
    char pad[32];
    snprintf(pad, sizeof pad, "%*s", 2 + 4 * depth, "");
    bool lag = depth == 0;
    for (int i = 0; i < n; i++) {
        uint64_t what = draw(g, 18);
        if (what < 3)
            add_collective(g, pad, lag);
        else if (what == 3 && depth < 2)
            add_repeat(g, pad, depth);
        else if (what == 4)
            add_stop(g, pad, lag);
        else if (what == 17)
            add_alone(g, pad, lag);
        else if (what >= 15)
            add_weave(g, pad, lag);
        else if (what >= 13)
            add_update(g, pad, lag);
        else
            add_task(g, pad, lag);
    }
}

/* What starts as none and has readers needs a step that writes it, which then never runs. */
static void add_writers(struct generator *g, char *values)
{
    bool needed = false;
    for (int v = 0; v < g->n_values; v++) {
        if (!g->values[v].news || !g->values[v].used || g->values[v].written ||
            g->values[v].updated)
            continue;
        append(g->steps, "  - mix: {when: iteration >= 1000, reads: [any], writes: [v%d]}\n", v);
        needed = true;
    }
    if (needed)
        append(values, "  any: {type: ints}\n");
}

static void make_values(struct generator *g)
{
    g->n_values = 4 + (int)draw(g, VALUES_MAX - 4);
    for (int i = 0; i < g->n_values; i++) {
        g->values[i].floats = draw(g, 4) == 0;
        g->values[i].news = !g->values[i].floats && draw(g, 6) == 0;
        g->values[i].place = (int)draw(g, 8) < 4 ? SHARD : draw(g, 3) ? GLOBAL : RANK0;
        g->values[i].buckets = 3;
    }
    g->has_update = draw(g, 3) > 0;
    g->first_local = -1;
    g->first_update_value = g->n_values;
    for (int i = 0; i < UPDATE_VALUES && g->has_update; i++) {
        g->values[g->n_values].sums = i <= MEAN;
        g->values[g->n_values].floats = i > MEAN;
        g->values[g->n_values].sharded_update = true;
        g->values[g->n_values].place = i == PARTIALS ? SHARD : GLOBAL;
        g->values[g->n_values++].buckets = 3;
    }
    if (g->has_update && draw(g, 2)) {
        g->first_local = g->n_values;
        for (int i = 0; i < LOCAL_VALUES; i++) {
            g->values[g->n_values].floats = g->values[g->n_values].sharded_update = true;
            g->values[g->n_values].place = i == SHOWN ? GLOBAL : SHARD;
            g->values[g->n_values++].buckets = 3;
        }
    }
    const int place = (int)draw(g, 6);
    for (int i = 0; i < ROWS && draw(g, 4); i++) {
        g->values[g->n_values].rows = true;
        g->values[g->n_values++].place = place > RANK0 ? SHARD : place;
    }
}

char *hd_random_graph(uint64_t seed)
{
    static const char *const places[] = {"per: shard", "placement: global", "placement: rank0"};
    struct generator *g = hd_alloc(1, sizeof *g);
    char *text = hd_alloc(TEXT_BYTES, 1);
    g->state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < 5; i++)
        draw(g, 2);
    make_values(g);
    bool cut = draw(g, 2);
    add_steps(g, 6 + (int)draw(g, 9), 0);
    append(g->steps, "  - stop: {if: iteration >= %d, reason: limit}\n", 2 + (int)draw(g, 7));
    append(text, "strategy: {shard_optimizer_above_mb: %d}\nvalues:\n", draw(g, 5) == 0);
    for (int i = 0; i < g->n_values; i++) {
        if (!g->values[i].used)
            continue;
        append(text, "  v%d: {type: %s, %s", i,
               g->values[i].floats ? "floats"
               : g->values[i].sums ? "sums"
               : g->values[i].news ? "news"
               : g->values[i].rows ? "rows"
                                   : "ints",
               places[g->values[i].place]);
        if ((g->values[i].floats || g->values[i].sums) && cut)
            append(text, ", bucket_mb: 3");
        if (!g->values[i].updated && draw(g, 2))
            append(text, ", slots: %d", 1 + (int)draw(g, 3));
        append(text, "}\n");
    }
    if (g->has_residual)
        append(text, "  residual: {type: residual, per: shard%s}\n", cut ? ", bucket_mb: 3" : "");
    bool none = strstr(text, "  v") == NULL;
    if (none)
        append(text, "  v0: {type: ints}\n");
    add_writers(g, text);
    append(text, "iteration:\n%s", g->steps);
    if (none)
        append(text, "  - bump: {updates: [v0]}\n");
    hd_free(g);
    return text;
}
