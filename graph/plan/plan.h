/* SPDX-License-Identifier: Apache-2.0 */
/* What one rank does in one iteration: shard steps for the shards it owns, global steps,
 * collectives; lags and background tasks lowered to snapshots and buffers. Computed without
 * starting anything. */
#ifndef HD_GRAPH_PLAN_PLAN_H
#define HD_GRAPH_PLAN_PLAN_H

#include "graph/language/graph.h"

struct hd_plan_value {
    int64_t first;     /* shard of this rank's first instance */
    int instances;     /* on this rank; 0: none */
    int buffers;       /* of each instance, through which writes rotate */
    int lag;           /* the largest k of x@-k; 0: none */
    int lag_snapshots; /* buffers for snapshots that lagged readers read; 0: the rotation serves
                        * them
                        */
    int background_snapshots; /* buffers for snapshots that background tasks read; 0: none needed */
    /* Among several ranks: */
    int64_t shared; /* where its rotation lies in the area that all ranks see, in bytes, an
                       instance after another, buffer by buffer; HD_NOT_SHARED: memory of its own */
    /* Where GPUs take part: */
    bool pinned; /* it stays in host memory, which GPUs address */
    int homes;   /* copies of each buffer: 1, the host's; a shard's has one on its shard's GPU too,
                    others on every GPU: hd_plan_get_replica */
    bool on_gpus_only; /* no task on the host touches it */
    bool lag_on_gpu;   /* copies for lagged readers are made there */
    bool sharded;      /* every rank has its slices of the buckets only */
    bool not_stored;   /* exists between two tasks only */
};

enum { HD_NOT_SHARED = -1 };

enum hd_source { HD_FROM_CURRENT, HD_FROM_LAG, HD_FROM_BACKGROUND };

enum hd_op_kind {
    HD_OP_STEP,
    HD_OP_REPEAT,              /* ops up to `end` are its body */
    HD_OP_LAG_SNAPSHOT,        /* copies `value` for lagged readers, if it is a new version */
    HD_OP_BACKGROUND_SNAPSHOT, /* copies `value` for the background step `step`, if both are due */
    HD_OP_COMPARE /* compares `value` between ranks every `param_check_interval` updates */
};

/* What a stage of all items partials to be added up before the next: as a value per shard with a
 * partial per item, and its sum. */
struct hd_cross_shard_sums {
    int64_t n; /* doubles; 0: nothing */
    struct hd_spec items, total;
    char label[64]; /* of the collective: "loss_grad.pool1" */
};

struct hd_op {
    enum hd_op_kind kind;
    struct hd_step *step;
    int value;
    int end;
    int buckets;     /* tasks per instance */
    int64_t scratch; /* bytes that its bodies need on a CPU, a multiple of 64 */
    bool gpu;        /* its bodies, or some stages of them, or the collective, run on GPUs */
    struct hd_subtasks subtasks;
    int flat; /* ref of the flat value that a step in subtasks writes by ranges of partials, or -1
               */
    struct hd_cross_shard_sums
        *cross_shard_sums; /* [stages]; NULL: nothing is added up between stages */
    /* An exchange: the step that uses a mean is done in slices, together with the mean. */
    const struct hd_op *mean; /* of the step that uses it: the op of the mean; else NULL */
    bool sharded_update;      /* of the mean: that step does it */
    bool background;
    enum hd_source sources[HD_PORTS_MAX]; /* of the step's refs */
};

struct hd_plan {
    struct hd_graph *graph;
    int rank, ranks;
    int devices;      /* GPUs of this rank; 0: everything runs on CPUs */
    bool device_comm; /* ranks combine what their GPUs hold without the host */
    int64_t param_check_interval;
    int update_counter;           /* HD_NO_COUNTER: nothing is compared */
    struct hd_plan_value *values; /* by index in the graph */
    struct hd_op *ops;
    int n_ops;
    int64_t shared_bytes; /* of each rank's area */
};

/* The GPUs of every rank. */
struct hd_plan_gpus {
    int n;            /* 0: everything runs on CPUs */
    bool device_comm; /* among several ranks: a device comm joins them */
};

/* The plan of `rank` of `ranks`, a number that the shards allow (hd_plan_allows), without GPUs if
 * gpus is NULL. The graph outlives it. Released by hd_plan_destroy (accepts NULL). */
int hd_plan_create(struct hd_graph *graph, int rank, int ranks, const struct hd_plan_gpus *gpus,
                   int64_t param_check_interval, struct hd_plan **plan_p);
void hd_plan_destroy(struct hd_plan *plan);

/* Whether `shards` can be spread over `ranks`; if not, says so in the log with the allowed numbers
 * and returns HD_ERR_INPUT. */
int hd_plan_allows(int64_t shards, int ranks);

/* Writes the plan as stable text (the format of the golden tests), or as a Graphviz graph. */
void hd_plan_dump(const struct hd_plan *plan, FILE *file);
void hd_plan_dump_dot(const struct hd_plan *plan, FILE *file);

/* Bytes between instances in the area that all ranks see: whole pages. */
static inline int64_t hd_plan_round_to_pages(int64_t bytes)
{
    enum { PAGE = 4096 };
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Whether a step's work is one task per instance and bucket. */
static inline bool hd_op_is_single_task(const struct hd_op *op)
{
    return op->subtasks.items == 1 && op->subtasks.stages == 1 &&
           !(op->gpu && op->step->verb->finish);
}

/* A step's form for GPUs, if it runs on one; NULL for what else there is, collectives too. */
static inline const struct hd_gpu_verb *hd_op_get_gpu_verb(const struct hd_op *op)
{
    return op->gpu ? op->step->verb->gpu : NULL;
}

/* Whether a stage of a step, or its `finish`, runs on a GPU. */
static inline bool hd_op_is_stage_on_gpu(const struct hd_op *op, int stage)
{
    const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
    return gpu && (!gpu->stage || gpu->stage(op->step->args, stage));
}

static inline bool hd_op_is_finish_on_gpu(const struct hd_op *op)
{
    const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
    return gpu && gpu->finish;
}

/* Where GPUs take part: whether the buckets of a global step, or of a collective, run on all GPUs
 * of the rank, each at hd_plan_get_home(bucket, buckets), where what they write then is
 * (devices.c). */
bool hd_op_is_distributed(const struct hd_plan *plan, const struct hd_op *op);

/* Whether tasks of op on a GPU (or on the host) touch the value of ref i (devices.c). */
bool hd_op_touches(const struct hd_op *op, int i, bool gpu);

/* Which copy of a value stands at a home, and the home of number i of n: of a shard step's local
 * instances, of buckets, or of what there is one of. */
int hd_plan_get_replica(const struct hd_plan *plan, int value, int home);
int hd_plan_get_home(const struct hd_plan *plan, int i, int n);

/* The other way round: the GPU of replica `replica` > 0 of a value's local instance. */
int hd_plan_get_replica_home(const struct hd_plan *plan, int value, int replica, int instance);

/* -- Between the files of graph/ ----------------------------------------------------------------
 */

/* The port of ref i of a step. */
static inline const struct hd_port *hd_step_get_port(const struct hd_step *step, int i)
{
    return &step->verb->ports[step->verb->many ? 0 : i];
}

/* Which tasks of a step in subtasks, whose task object is made, touch the value of ref i. */
static inline enum hd_access_scope hd_step_get_scope(const struct hd_step *step, int i)
{
    return step->verb->get_scope ? step->verb->get_scope(step->args, i)
                                 : hd_step_get_port(step, i)->scope;
}

/* Which collectives run on a GPU, and where the values are that GPUs touch (devices.c). */
void hd_plan_place_reductions(struct hd_plan *plan);
void hd_plan_assign_homes(struct hd_plan *plan);

/* Finds the means that are done in slices with the steps that use them, and which values then are
 * sharded, not stored, or shared among the ranks (sharded_updates.c). */
void hd_plan_find_sharded_updates(struct hd_plan *plan);

/* Whether a step, whose task object is made, adds something up between its stages; and what, into
 * the op (cross_shard_sums.c). Errors: HD_ERR_UNSUPPORTED, HD_ERR_NOMEM. */
bool hd_step_has_cross_shard_sums(const struct hd_step *step);
int hd_plan_add_cross_shard_sums(struct hd_op *op);

/* Whether step reads or changes ref's value in a way that makes a new version. */
static inline bool hd_ref_changes(const struct hd_ref *ref)
{
    return ref->value != HD_NO_VALUE && ref->mode != HD_READ;
}

#endif
