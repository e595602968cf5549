/* SPDX-License-Identifier: Apache-2.0 */
/* A plan says what one rank does in one iteration: shard steps for the shards it owns, global
 * steps, collectives, and the snapshots that serve lagged reads and background tasks. It is
 * computed without starting anything, and every rank's plan has the same ops in the same order.
 * Plans are made and destroyed by one thread at a time; a plan that stands is read-only, so any
 * thread may read it. */
#pragma once

#include "graph/language/graph.h"
#include "runtime/base/tree.h"
#include "runtime/engine/submit.h"

enum { HD_NOT_SHARED = -1, HD_LABEL_BYTES = 64 };

/* Copies of a value for readers that are behind. */
struct hd_snapshots {
    int buffers; /* of each instance; 0: none is needed */
    bool on_gpu; /* they are made on the GPU, where readers are */
};

/* The part of a value that this rank keeps. */
enum hd_storage {
    HD_STORE_ALL,
    HD_STORE_SLICES, /* its slices of the buckets */
    HD_STORE_NOTHING /* it exists between two tasks only */
};

/* The memory that a value is in, by the processors that touch it. */
enum hd_residence {
    HD_ON_HOST,
    HD_PINNED,  /* in host memory, which GPUs address */
    HD_ON_BOTH, /* replicas on the host and on GPUs */
    HD_ON_GPUS  /* the same, but no task on the host touches it */
};

struct hd_plan_value {
    int64_t first;                  /* shard of this rank's first instance */
    int instances;                  /* on this rank; 0: none */
    int buffers;                    /* of each instance, through which writes rotate */
    int lag;                        /* the largest k of x@-k; 0: none */
    struct hd_snapshots lagged;     /* what lagged readers see; 0: the rotation serves them */
    struct hd_snapshots background; /* what background tasks read */
    int64_t shared; /* offset in bytes of its rotation in the area that all ranks see, ordered
                       [buffers][instances]; HD_NOT_SHARED: it has memory of its own */
    enum hd_storage storage;
    bool transient; /* no iteration reads what an earlier one left in it */
    int alias; /* value whose memory and spec its readers see, earlier in the graph; HD_NO_VALUE:
                  its own */
    enum hd_residence residence;
    int homes; /* replicas of each buffer: 1, the host's; an instance of a shard has one on
                  its shard's GPU too, others have one on every GPU (hd_plan_get_replica) */
    /* Names of the tasks and collectives that the plan itself adds. */
    char snapshot_label[HD_LABEL_BYTES], compare_label[HD_LABEL_BYTES],
        transfer_label[HD_LABEL_BYTES];
};

enum hd_source { HD_FROM_CURRENT, HD_FROM_LAG, HD_FROM_BACKGROUND };

enum hd_op_kind {
    HD_OP_STEP,
    HD_OP_REPEAT,              /* the ops up to `end` are its body */
    HD_OP_LAG_SNAPSHOT,        /* copies `value` for lagged readers, if it is a new version */
    HD_OP_BACKGROUND_SNAPSHOT, /* copies `value` for the background step `step`, if both are due */
    HD_OP_COMPARE /* compares `value` between ranks every `param_check_interval` updates */
};

/* The form in which a step is submitted. */
enum hd_lowering {
    HD_LOWERING_TASK,           /* a task per instance and bucket */
    HD_LOWERING_SUBTASKS,       /* a task per instance, item and stage, and one for `finish` */
    HD_LOWERING_COLLECTIVE,     /* a collective per bucket, on the host or the rank's one GPU */
    HD_LOWERING_GPU_REDUCE,     /* tasks that add up what several GPUs of a rank hold, and among
                                   several ranks a collective */
    HD_LOWERING_SHARDED_UPDATE, /* a mean and its use, slice by slice */
    HD_LOWERING_FUSED, /* nothing: a mean that the next op's sharded update computes, or that
                          is its only term */
    HD_LOWERING_STOP   /* a task that reads fields, for which the submitter waits */
};

/* The numbers that all items of a stage leave to be added up before the next stage: a value per
 * shard with a partial per item, and its sum. */
struct hd_cross_shard_sums {
    int64_t n; /* doubles; 0: nothing is added up */
    struct hd_spec items, total;
    char label[HD_LABEL_BYTES]; /* of the collective: "loss_grad.sums1" */
};

enum { HD_FUSED_PASSES = 8 };

struct hd_op {
    enum hd_op_kind kind;
    struct hd_step *step;
    int value; /* of a step: the flat one that it changes by buckets, or HD_NO_VALUE */
    int end;
    char fused[HD_LABEL_BYTES]; /* of a repeat whose body's tasks on the GPU become one, of up to
                                   HD_FUSED_PASSES passes where nothing else is submitted: its name;
                                   else "" */
    bool in_fused;              /* it is in the body of such a repeat */
    /* The following belong to ops of kind HD_OP_STEP. */
    enum hd_lowering lowering;
    bool background; /* its tasks let all others pass */
    bool gpu;        /* its bodies, or some stages of them, or the collective, run on GPUs */
    int buckets;     /* tasks per instance */
    int64_t scratch; /* bytes that its bodies need on a CPU, a multiple of 64 */
    struct hd_subtasks subtasks;
    int flat; /* ref of the flat value that a step in subtasks writes by ranges of each partial, or
                 -1 */
    struct hd_cross_shard_sums *cross_shard_sums; /* [stages]; NULL: nothing is added up */
    const struct hd_op *mean;  /* SHARDED_UPDATE: the op of the mean; else NULL */
    const char *const *labels; /* SHARDED_UPDATE: [buckets], names of the sync points, in the
                                  graph's memory; else NULL */
    enum hd_source sources[HD_PORTS_MAX]; /* of the step's refs */
    struct hd_channels channels;          /* of what it exchanges with other ranks */
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
    int channels;         /* of the communicator */
    int request_channel;  /* of the requests that ranks agree on (control_requests.c) */
};

/* The GPUs that every rank has. */
struct hd_plan_gpus {
    int n;            /* 0: everything runs on CPUs */
    bool device_comm; /* among several ranks: a device communicator joins them */
};

/* Returns whether GPUs are of any use to a graph: they can compute its gradients. */
bool hd_plan_can_use_gpus(const struct hd_graph *graph);

/* Makes the plan of `rank` of `ranks`, a number that hd_plan_allows accepts; gpus NULL: without
 * GPUs. The graph outlives the plan, which the caller releases with hd_plan_destroy (accepts NULL).
 * Returns HD_OK, HD_ERR_NOMEM or, for steps that contradict themselves, HD_ERR_UNSUPPORTED (both
 * logged). */
int hd_plan_create(struct hd_graph *graph, int rank, int ranks, const struct hd_plan_gpus *gpus,
                   int64_t param_check_interval, struct hd_plan **plan_p);
void hd_plan_destroy(struct hd_plan *plan);

/* Distributes the collectives over channels, each of which has one exchange open at a time: buckets
 * in turns over `open_exchanges`, any other collective to one of its own, as far as there are
 * enough. 1, which a new plan has: all on one. 0: as many as is fastest where the ranks are on one
 * host, or on several. The same on all ranks (channels.c). */
void hd_plan_assign_channels(struct hd_plan *plan, int open_exchanges, bool one_host);

/* Returns HD_OK if `shards` can be distributed over `ranks`, else HD_ERR_INPUT (logged, with the
 * allowed numbers). */
int hd_plan_allows(int64_t shards, int ranks);

/* Returns whether a run may go on at op `at` from the values that checkpoints have: it is in no
 * repeat, and no value that is dead between iterations is alive there. */
bool hd_plan_can_resume_at(const struct hd_plan *plan, int at);

/* Writes the plan as stable text (the format of the golden tests), only the lines of its iteration,
 * or the plan as a Graphviz graph. Errors of the file are the caller's to look for (ferror). */
void hd_plan_dump(const struct hd_plan *plan, FILE *file);
void hd_plan_dump_iteration(const struct hd_plan *plan, FILE *file);
void hd_plan_dump_dot(const struct hd_plan *plan, FILE *file);

/* -- Sizes (sizes.c) --------------------------------------------------------------------------- */
/* Each returns bytes: the most that any task or collective of the plan needs. */

/* Returns the scratch that tasks need on a CPU worker, and on each GPU. */
int64_t hd_plan_get_scratch_bytes(const struct hd_plan *plan);
int64_t hd_plan_get_device_scratch_bytes(const struct hd_plan *plan);

/* Returns what a collective puts into the transport between ranks, and what one between the ranks'
 * GPUs needs on a GPU. */
int64_t hd_plan_get_payload_bytes(const struct hd_plan *plan);
int64_t hd_plan_get_device_comm_bytes(const struct hd_plan *plan);

/* Returns the bytes of the transport's buffers that this rank's collectives fill: two on each
 * channel; 0 without other ranks. */
int64_t hd_plan_get_exchange_bytes(const struct hd_plan *plan);

/* Returns `bytes` rounded up to whole pages: instances in the area that all ranks see begin at
 * pages. */
static inline int64_t hd_plan_round_to_pages(int64_t bytes)
{
    enum { PAGE = 4096 };
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* -- Memory of values on a host (memory.c) ----------------------------------------------------- */

/* Writes a line for each value, with its bytes, and their sum. Errors of the file are the caller's
 * to look for (ferror). */
void hd_plan_dump_memory(const struct hd_plan *plan, FILE *file);

/* Returns HD_OK if `ranks` ranks like the plan's fit in `available` bytes, else HD_ERR_INPUT
 * (logged, with the largest value and the key that decides on it). */
int hd_plan_check_memory(const struct hd_plan *plan, int ranks, int64_t available);

/* Logs that there is no memory for a value, and which key decides on its size. */
void hd_plan_report_no_memory(const struct hd_graph_value *value, int64_t bytes);

/* -- Collectives, as the runtime knows them (collectives.c) ------------------------------------ */

/* Returns the collective of a comparison, or of a step that is no task: what it does, its specs and
 * its number of instances on this rank, without memory. Its names are the plan's and the graph's.
 */
struct hd_collective hd_plan_make_collective(const struct hd_plan *plan, const struct hd_op *op);

/* Returns the collective that adds up cross-shard sums, without memory. */
struct hd_collective hd_plan_make_cross_shard_collective(const struct hd_plan *plan,
                                                         const struct hd_cross_shard_sums *sums);

/* A reduction by several GPUs keeps operands in a GPU's scratch: floats, padded to 64 bytes, and
 * then HD_ALIGNMENT bytes that begin with the operand's count. Return the number of floats with
 * padding, and the bytes of the whole. */
int64_t hd_gpu_operand_get_floats(const struct hd_spec *spec, int bucket);
int64_t hd_gpu_operand_get_bytes(const struct hd_spec *spec, int bucket);

/* -- Steps ------------------------------------------------------------------------------------- */

/* Returns the port of ref i of a step. */
static inline const struct hd_port *hd_step_get_port(const struct hd_step *step, int i)
{
    return &step->verb->ports[step->verb->many ? 0 : i];
}

/* Returns which tasks of a step in subtasks, whose task object is made, touch the value of ref i.
 */
static inline enum hd_access_scope hd_step_get_scope(const struct hd_step *step, int i)
{
    return step->verb->get_scope ? step->verb->get_scope(step->args, i)
                                 : hd_step_get_port(step, i)->scope;
}

/* Returns whether a ref makes a new version of its value. */
static inline bool hd_ref_changes(const struct hd_ref *ref)
{
    return ref->value != HD_NO_VALUE && ref->mode != HD_READ;
}

/* Returns how a mean rounds what it exchanges; NULL: it does not, or the op is none. */
static inline const struct hd_rounding *hd_op_get_rounding(const struct hd_op *op)
{
    return op->kind == HD_OP_STEP && op->step->verb->kind == HD_VERB_COLLECTIVE ? op->step->args
                                                                                : NULL;
}

/* Returns how many instances a value or step of this placement has on the plan's rank. */
static inline int hd_plan_count_instances(const struct hd_plan *plan, enum hd_placement placement)
{
    return placement == HD_SHARD   ? (int)(plan->graph->shards / plan->ranks)
           : placement == HD_RANK0 ? plan->rank == 0
                                   : 1;
}

/* -- GPUs (devices.c) -------------------------------------------------------------------------- */
/* A home is where a task runs: HD_HOST, or the number of a GPU, counted from 1. */

/* Returns a step's form for GPUs, if it runs on one; NULL for other ops, collectives too. */
static inline const struct hd_gpu_verb *hd_op_get_gpu_verb(const struct hd_op *op)
{
    return op->gpu ? op->step->verb->gpu : NULL;
}

/* Return whether a stage of a step, or its `finish`, runs on a GPU or with its tasks. */
static inline bool hd_op_is_stage_on_gpu(const struct hd_op *op, int stage)
{
    const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
    return gpu && (!gpu->stage || gpu->stage(op->step->args, stage));
}

static inline bool hd_op_is_finish_on_gpu(const struct hd_op *op)
{
    const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
    return gpu && (gpu->finish || gpu->finishes_at_end);
}

/* Returns whether tasks of op on a GPU (or on the host) touch the value of ref i. */
bool hd_op_touches(const struct hd_op *op, int i, bool gpu);

/* Returns the index of the replica of a value that stands at a home. Like the next two functions,
 * it cannot fail. */
int hd_plan_get_replica(const struct hd_plan *plan, int value, int home);
/* Returns the home of number i of n, which counts the rank's shards. */
int hd_plan_get_home(const struct hd_plan *plan, int i, int n);
/* Returns the GPU that holds replica `replica` > 0 of instance `instance`, counted on this rank. */
int hd_plan_get_replica_home(const struct hd_plan *plan, int value, int replica, int instance);
