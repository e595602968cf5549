/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph reads, and whether anything has made it: mistakes, warnings, and graphs that are as
 * they should be. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tests/graph/loaded_graph.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 1024, PLACE_BYTES = 64 };

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->bytes = 8;
    return HD_OK;
}

static int resolve_flat(struct hd_spec *spec, const struct hd_setup *setup)
{
    spec->elements = 2;
    return resolve(spec, setup);
}

static const struct hd_reduction reduction = {.hows = 1 << HD_MEAN};
static const char *const counted[] = {"size", NULL};
static const struct hd_type plain = {.name = "plain", .resolve = resolve},
                            fresh = {.name = "fresh", .none = true, .resolve = resolve},
                            given = {.name = "given", .given = true, .resolve = resolve},
                            flat = {.name = "flat",
                                    .given = true,
                                    .flat = true,
                                    .resolve = resolve_flat,
                                    .reduction = &reduction},
                            kept = {.name = "kept", .used_by_updates = true, .resolve = resolve},
                            ring = {.name = "ring", .counted = counted, .resolve = resolve};
static const struct hd_type *const types[] = {&plain, &fresh, &given, &flat, &kept, &ring, NULL};

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    return HD_OK;
}

static const struct hd_port make_ports[] = {{"to", NULL, .mode = HD_WRITE}, {0}};
static const struct hd_port alter_ports[] = {{"to", NULL, .mode = HD_UPDATE, .none = true}, {0}};
static const struct hd_port use_ports[] = {{"a", NULL, .mode = HD_READ}, {0}};
static const struct hd_port take_ports[] = {{"a", NULL, .mode = HD_READ, .none = true}, {0}};
static const struct hd_verb make = {
    .name = "make", .stream_id = 1, .ports = make_ports, .body = body};
static const struct hd_verb alter = {
    .name = "alter", .stream_id = 2, .ports = alter_ports, .body = body};
static const struct hd_verb use = {.name = "use", .stream_id = 3, .ports = use_ports, .body = body};
static const struct hd_verb take = {
    .name = "take", .stream_id = 4, .ports = take_ports, .body = body};
static const struct hd_verb show = {
    .name = "show", .stream_id = 5, .ports = take_ports, .many = true, .logs = true, .body = body};
static const struct hd_verb *const verbs[] = {
    &make, &alter, &use, &take, &show, &hd_verb_broadcast, &hd_verb_mean, &hd_verb_stop, NULL};
static const struct hd_key keys[] = {{0}};
static const struct hd_registry registry = {types, verbs, keys};

/* `names` is what the message at the place that `steps` or `values` marks by ^ is about; NULL:
 * nothing is said. */
struct row {
    const char *values, *steps, *names;
};

static const struct row mistakes[] = {
    /* Nobody makes it, or too late. */
    {"f: {type: fresh}", "use: {reads: [^f]}", "no step writes 'f'|use|fresh"},
    {"f: {type: fresh}", "use: {reads: [^f]}\n  - make: {writes: [f], when: 0}",
     "no step writes 'f'"},
    {"f: {type: fresh}", "use: {reads: [^f]}\n  - make: {writes: [f]}",
     "'f'|use|make at line 5|'f@-1'|iteration > 1"},
    {"f: {type: fresh}",
     "repeat: 2\n    do: [use: {reads: [^f]}, make: {writes: [f]}]\n  - take: {reads: [f]}",
     "'f'|use|behind make at line 5"},
    {"f: {type: fresh}\n  h: {type: fresh, placement: rank0}",
     "broadcast: {reads: [h], writes: [f]}\n  - use: {reads: [^f]}\n  - make: {writes: [h]}",
     "'f'|use|broadcast(h) at line 5|none either"},
    /* A lag goes back to the start of an iteration, the first of which has nothing. */
    {"f: {type: fresh}", "make: {writes: [f]}\n  - use: {reads: [^f@-1]}",
     "'f@-1'|up to 1|iteration > 1"},
    {"f: {type: fresh}", "make: {writes: [f]}\n  - use: {reads: [^f@-2], when: iteration >= 2}",
     "'f@-2'|iteration > 2"},
    /* Its guard may say no. */
    {"f: {type: fresh}\n  r: {type: ring}",
     "alter: {updates: [r]}\n  - make: {writes: [f], when: r.size > 2}\n  - use: {reads: [^f]}",
     "'f'|make at line 6|guard|use"},
    {"f: {type: fresh}", "make: {writes: [f], every: 2 iteration}\n  - use: {reads: [^f]}",
     "'f'|guard"},
    /* What is made of one value is no content for what is made of another one. */
    {"p: {type: given}\n  f: {type: fresh, of: p}\n  h: {type: fresh, placement: rank0}",
     "make: {writes: [h]}\n  - ^broadcast: {reads: [h], writes: [f]}\n  - use: {reads: [f]}\n"
     "  - use: {reads: [p]}",
     "'h'|of 'p'"},
};

static const struct row warnings[] = {
    /* In vain. */
    {"f: {type: fresh}", "make: {writes: [^f]}", "no step reads 'f'|make writes"},
    {"w: {type: plain}", "alter: {updates: [^w]}", "no step reads 'w'|alter updates"},
    {"w: {type: plain}", "alter: {updates: [^w]}\n  - show: {reads: [w]}",
     "no step but log reads 'w'"},
    /* As it starts. */
    {"^w: {type: plain}", "use: {reads: [w]}", "no step changes 'w'|use"},
    {"p: {type: given}\n  ^q: {type: given, init: p}",
     "alter: {updates: [p]}\n  - use: {reads: [p]}\n  - use: {reads: [q]}", "no step changes 'q'"},
    {"r: {type: ring}", "alter: {updates: [r]}\n  - use: {reads: [^r]}", "'r'|r.size"},
    /* Ahead of the change that it is meant to see. */
    {"f: {type: fresh}", "show: {reads: [^f]}\n  - make: {writes: [f]}",
     "show|'f'|make at line 5|iteration before"},
    {"f: {type: fresh}",
     "repeat: 2\n    when: iteration > 0\n    do: [use: {reads: [^f]}]\n  - make: {writes: [f]}",
     "use|'f'|make at line 7|iteration before"},
    {"w: {type: plain}", "show: {reads: [^w]}\n  - alter: {updates: [w]}\n  - use: {reads: [w]}",
     "show|'w'|alter at line 5|iteration before"},
    {"p: {type: given}",
     "use: {reads: [^p], every: 2 iteration}\n  - make: {writes: [p], every: 2 iteration}",
     "use|'p'|make at line 5|iteration before"},
    {"f: {type: fresh}", "make: {writes: [f]}\n  - use: {reads: [^f]}\n  - alter: {updates: [f]}",
     "use|'f'|alter at line 6|make left"},
    /* A whole `every` late. */
    {"p: {type: given}\n  k: {type: kept}",
     "make: {writes: [p], every: 2 update}\n  - alter: {updates: [k], counts: update}\n"
     "  - use: {reads: [^p], every: 2 update}",
     "use|'p'|alter at line 6|make at line 5"},
    /* Shards whose mean comes back to none. */
    {"s: {type: flat, per: shard}\n  m: {type: flat}",
     "alter: {updates: [s]}\n  - mean: {reads: [^s], writes: [m]}\n  - use: {reads: [m]}",
     "'s'|mean(s)|copy"},
};

static const struct row right[] = {
    {"f: {type: fresh}", "make: {writes: [f]}\n  - use: {reads: [f]}", NULL},
    {"f: {type: fresh}", "make: {writes: [f]}\n  - show: {reads: [f]}", NULL},
    {"f: {type: fresh}", "use: {reads: [f@-1], when: iteration > 1}\n  - make: {writes: [f]}",
     NULL},
    {"f: {type: fresh}\n  r: {type: ring}",
     "alter: {updates: [r]}\n  - repeat: 2\n    when: r.size > 2\n"
     "    do: [make: {writes: [f]}, use: {reads: [f]}]\n"
     "  - use: {reads: [f], when: r.size > 2}",
     NULL},
    {"f: {type: fresh}",
     "make: {writes: [f]}\n  - repeat: 2\n"
     "    do: [use: {reads: [f]}, alter: {updates: [f]}]",
     NULL},
    {"p: {type: given}", "use: {reads: [p]}", NULL},
    {"p: {type: given}", "use: {reads: [p]}\n  - alter: {updates: [p]}", NULL},
    {"p: {type: given}", "use: {reads: [p]}\n  - make: {writes: [p], every: 2 iteration}", NULL},
    {"k: {type: kept}", "alter: {updates: [k]}", NULL},
    {"p: {type: given}\n  k: {type: kept}",
     "alter: {updates: [k], counts: update}\n  - make: {writes: [p], every: 2 update}\n"
     "  - use: {reads: [p], every: 2 update}",
     NULL},
    {"s: {type: flat, per: shard}\n  m: {type: flat}",
     "alter: {updates: [s]}\n  - mean: {reads: [s], writes: [m]}\n  - use: {reads: [m]}\n"
     "  - make: {writes: [s]}",
     NULL},
};

/* Loads the graph of a row and writes the place of its mark. */
static int load(const struct row *row, struct loaded_graph *l, char place[PLACE_BYTES])
{
    char text[TEXT_BYTES], *mark;
    snprintf(text, sizeof text, "values:\n  %s\niteration:\n  - %s\n", row->values, row->steps);
    place[0] = '\0';
    if ((mark = strchr(text, '^'))) {
        int line = 1;
        const char *start = text;
        for (const char *at = text; at < mark; at++)
            if (*at == '\n') {
                line++;
                start = at + 1;
            }
        snprintf(place, PLACE_BYTES, "g.yaml:%d:%d: ", line, (int)(mark - start) + 1);
        memmove(mark, mark + 1, strlen(mark));
    }
    const struct hd_graph_source source = {.registry = &registry, .shards = 2};
    return loaded_graph_load(l, &source, "g.yaml", text, strlen(text));
}

static void check_only_line(const struct hd_diag *diag, const char *place, const char *names)
{
    for (int64_t i = 1; i < hd_diag_count(diag); i++)
        ck_abort_msg("too much is said: %s", hd_diag_get_line(diag, i));
    ck_assert_int_eq(hd_diag_count(diag), names != NULL);
    if (names) {
        check_names(hd_diag_get_line(diag, 0), place);
        check_names(hd_diag_get_line(diag, 0), names);
    }
}

TEST(what_has_no_content_is_not_read, .runs = COUNT(mistakes))
{
    struct loaded_graph l;
    char place[PLACE_BYTES];
    ck_assert_int_eq(load(&mistakes[_i], &l, place), HD_ERR_INPUT);
    check_only_line(l.diag, place, mistakes[_i].names);
    loaded_graph_release(&l);
}

TEST(what_is_hardly_meant_is_told, .runs = COUNT(warnings))
{
    struct loaded_graph l;
    char place[PLACE_BYTES];
    ck_assert_int_eq(load(&warnings[_i], &l, place), HD_OK);
    check_only_line(l.graph->warnings, place, warnings[_i].names);
    loaded_graph_release(&l);
}

TEST(what_is_right_is_passed_in_silence, .runs = COUNT(right))
{
    struct loaded_graph l;
    char place[PLACE_BYTES];
    ck_assert_int_eq(load(&right[_i], &l, place), HD_OK);
    check_only_line(l.graph->warnings, place, NULL);
    loaded_graph_release(&l);
}
