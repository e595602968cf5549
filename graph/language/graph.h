/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a graph as the user wrote it, checked: values, steps in program order, guards. It is
 * the same on every rank; plan.h says what one rank does with it. load.h makes it. It does not
 * change once loaded, except for the task objects, which may be rebuilt: any thread may read it,
 * one thread at a time calls the functions below. */
#pragma once

#include "graph/language/expr.h"
#include "tasks/base/registry.h"

enum { HD_NO_COUNTER = -1, HD_NO_VALUE = -1, HD_PORTS_MAX = 16 };

struct hd_graph_value {
    struct hd_spec spec;
    const struct hd_node *node;
    int slots; /* buffers through which writes rotate, >= 1 */
    int n_attributes;
    bool written;                        /* some step writes it */
    bool updated;                        /* some step updates it */
    struct hd_source_location first_use; /* first step that names it; line 0: none */
};

/* One use of a value by a step. */
struct hd_ref {
    int value; /* index, or HD_NO_VALUE: an optional port left out */
    int lag;   /* k of x@-k; 0: the current version */
    enum hd_mode mode;
    struct hd_source_location location;
};

/* A slot is what an expression may read. */
enum hd_slot_kind { HD_SLOT_COUNTER, HD_SLOT_ATTRIBUTE, HD_SLOT_FIELD };
struct hd_slot {
    enum hd_slot_kind kind;
    int value; /* ATTRIBUTE, FIELD: index of the value */
    int index; /* of the counter, attribute or field */
    const char *name;
};

struct hd_step {
    int index; /* in file order, counted over the whole graph */
    struct hd_source_location location;
    const char *label;          /* "adam", "mean(grad)" */
    const struct hd_verb *verb; /* NULL: a repeat */
    const struct hd_node *options;
    int depth;   /* of repeats around it */
    bool absent; /* only while it is parsed: it lacks a value, and the graph is without it */

    struct hd_ref *refs; /* in order of the verb's ports; `many`: of the file */
    int n_refs;
    enum hd_placement placement;
    struct hd_expr *when; /* or NULL */
    int64_t every;        /* 0: no `every` */
    int every_counter;
    int64_t first;
    int counts;              /* counter that the step increments, or HD_NO_COUNTER */
    enum hd_combine combine; /* of a collective */

    struct hd_expr *condition; /* stop */
    const char *reason;        /* stop */

    int64_t times; /* repeat */
    struct hd_step *steps;
    int n_steps;

    struct hd_setup setup; /* for prepare and declare */
    void *args;            /* the task object */
    uint64_t stream;       /* of its random numbers */
};

/* A number or a word of a strategy: graph default < strategy file < --set strategy.x=v. */
struct hd_strategy_parameter {
    const char *name;
    double value;
    const char *word;                /* NULL: a number */
    struct hd_source_location given; /* where the default is overridden; line 0: nowhere */
    bool used;                       /* by the graph file */
};

struct hd_graph {
    const struct hd_registry *registry;
    const struct hd_config *config;
    int64_t shards;
    uint64_t seed;
    struct hd_graph_value *values;
    int n_values;
    int n_absent_values; /* behind them: values whose `when` is zero, which only the parser sees */
    const char **counters; /* counters[0] is "iteration" */
    int n_counters;
    struct hd_slot *slots;
    int n_slots;
    struct hd_strategy_parameter *parameters;
    int n_parameters;
    struct hd_step *steps;
    int n_steps;
    struct hd_step **all_steps; /* [total_steps]: repeats before their bodies, in file order; NULL
                                   while the graph is parsed */
    int total_steps;
    struct hd_diag *warnings; /* what is allowed, but hardly meant */

    void **blocks; /* all memory above */
    int64_t n_blocks, capacity;
};

/* Releases a graph with its task objects; accepts NULL. */
void hd_graph_destroy(struct hd_graph *graph);

/* Releases and builds anew all task objects, without effect on results. No task may run. Returns
 * HD_OK or the first error of a verb's prepare. */
int hd_graph_rebuild(struct hd_graph *graph);

/* Returns whether a step has no `every` and runs only when something that it reads has a version
 * that it has not read yet. */
bool hd_step_runs_on_change(const struct hd_step *step);

/* Return the index of the value or counter of that name, or HD_NO_VALUE or HD_NO_COUNTER, which is
 * no error. */
int hd_graph_find_value(const struct hd_graph *graph, const char *name);
int hd_graph_find_counter(const struct hd_graph *graph, const char *name);

/* Returns zeroed memory for `count` elements of `size` bytes that lives as long as the graph; NULL
 * (logged) without memory. */
void *hd_graph_alloc(struct hd_graph *graph, int64_t count, size_t size);
