/* SPDX-License-Identifier: Apache-2.0 */
/* What one rank does in one iteration: shard steps for the shards it owns, global steps,
 * collectives; lags and side tasks lowered to snapshots and buffers. Computed without starting
 * anything. */
#ifndef HD_GRAPH_PLAN_H
#define HD_GRAPH_PLAN_H

#include "graph/graph.h"

struct hd_plan_value {
    int64_t first;   /* shard of this rank's first instance */
    int instances;   /* on this rank; 0: none */
    int buffers;     /* of each instance, through which writes rotate */
    int lag;         /* the largest k of x@-k; 0: none */
    int lag_copies;  /* buffers for snapshots that lagged readers read; 0: the rotation serves them
                      */
    int side_copies; /* buffers for snapshots that side tasks read; 0: none needed */
};

enum hd_source { HD_FROM_CURRENT, HD_FROM_LAG, HD_FROM_SIDE };

enum hd_op_kind {
    HD_OP_STEP,
    HD_OP_REPEAT,        /* ops up to `end` are its body */
    HD_OP_LAG_SNAPSHOT,  /* copies `value` for lagged readers, if it is a new version */
    HD_OP_SIDE_SNAPSHOT, /* copies `value` for the side step `step`, if both are due */
    HD_OP_COMPARE        /* compares `value` between ranks every `check_every` updates */
};

struct hd_op {
    enum hd_op_kind kind;
    struct hd_step *step;
    int value;
    int end;
    int parts; /* tasks per instance */
    bool side;
    enum hd_source sources[HD_PORTS_MAX]; /* of the step's refs */
};

struct hd_plan {
    struct hd_graph *graph;
    int rank, ranks;
    int64_t check_every;
    int update_counter;           /* HD_NO_COUNTER: nothing is compared */
    struct hd_plan_value *values; /* by index in the graph */
    struct hd_op *ops;
    int n_ops;
};

/* The plan of `rank` of `ranks`, a number that the shards allow (hd_plan_allows). The graph
 * outlives it. Released by hd_plan_destroy (accepts NULL). */
int hd_plan_create(struct hd_graph *graph, int rank, int ranks, int64_t check_every,
                   struct hd_plan **plan_p);
void hd_plan_destroy(struct hd_plan *plan);

/* Whether `shards` can be spread over `ranks`; if not, says so in the log with the allowed numbers
 * and returns HD_ERR_INPUT. */
int hd_plan_allows(int64_t shards, int ranks);

/* Writes the plan as stable text (the format of the golden tests), or as a Graphviz graph. */
void hd_plan_dump(const struct hd_plan *plan, FILE *file);
void hd_plan_dot(const struct hd_plan *plan, FILE *file);

/* Whether step reads or changes ref's value in a way that makes a new version. */
static inline bool hd_ref_changes(const struct hd_ref *ref)
{
    return ref->value != HD_NO_VALUE && ref->mode != HD_READ;
}

#endif
