/* SPDX-License-Identifier: Apache-2.0 */
/* What execute.c (the walk) and tasks.c (making tasks of steps) share. */
#ifndef HD_GRAPH_EXECUTE_EXECUTE_INTERNAL_H
#define HD_GRAPH_EXECUTE_EXECUTE_INTERNAL_H

#include "graph/execute/execute.h"
#include "graph/execute/instances.h"
#include "runtime/engine/sharded_update.h"

enum { HD_WINDOW_MAX = 64, HD_ATTRIBUTES_MAX = 4, HD_LABEL_BYTES = 64 };

/* What the submitter remembers of a step. */
struct hd_step_state {
    int64_t next_due;                /* `every`: counter value at which it fires next */
    int64_t last_read[HD_PORTS_MAX]; /* versions it read last */
    double *fields;                  /* stop: by slot, what it last saw; NaN: none */
};

/* What steps in subtasks keep between their tasks, for every instance and item. */
struct hd_work_buffers {
    void **memory;  /* [instances][items], on the instance's GPU if the step runs there */
    void **headers; /* likewise, host memory */
    int instances;
    bool gpu;
    struct hd_buffer **buffers; /* likewise; buckets HD_WORK_CHAIN and HD_WORK_HEADER */
    int64_t n;
    struct hd_cross_shard_buffers
        *cross_shard; /* [n_cross_shard], by stage; NULL: nothing is added up */
    int n_cross_shard;
};

/* What is added up after a stage: every instance's items, and the sums. */
struct hd_cross_shard_buffers {
    void **items; /* [n] */
    struct hd_buffer **buffers;
    int n; /* instances */
    double *sums;
    struct hd_buffer *sums_buffer;
};

/* What ranks request in an iteration, by iteration modulo the window. */
struct hd_control_request {
    unsigned local, all;
    struct hd_buffer *local_buffer, *all_buffer;
    bool submitted;
};

/* Stages of an item follow one another on the chain. `finish` waits for the headers alone, which
 * stage 0 writes, so that later stages need not wait for it; one that runs last, for the chains. */
enum { HD_WORK_CHAIN, HD_WORK_HEADER, HD_WORK_BUCKETS };

struct hd_executor {
    struct hd_plan *plan;
    struct hd_session *session;
    struct hd_executor_options options;
    struct hd_setup setup;
    struct hd_instances *instances;           /* by value */
    int64_t (*attributes)[HD_ATTRIBUTES_MAX]; /* by value */
    int64_t *counters;
    struct hd_step_state *step_states;    /* by step index */
    struct hd_work_buffers *work_buffers; /* by step index */
    const char ***sharded_update_labels;  /* by step index of the mean, by bucket; or NULL */
    struct hd_access *accesses;           /* of the task being made */
    int64_t n_accesses, accesses_capacity;
    int64_t next_compare;
    int64_t repeat_index;
    struct hd_task_group
        task_groups[HD_WINDOW_MAX]; /* tasks under way, by iteration modulo the window */
    struct hd_task_group stop_group;
    struct hd_control_request requests[HD_WINDOW_MAX];
    const char *reason; /* of the stop step that held */
    char (*snapshot_labels)[HD_LABEL_BYTES], (*compare_labels)[HD_LABEL_BYTES]; /* by value */
    char (*transfer_labels)[HD_LABEL_BYTES];
};

/* The iteration being submitted. */
static inline int64_t hd_executor_get_iteration(const struct hd_executor *executor)
{
    return executor->counters[0];
}

/* The slot that ref i of a step reads or writes now. */
struct hd_version_slot *hd_executor_get_slot(const struct hd_executor *executor,
                                             const struct hd_op *op, int i);

/* The version that ref i would read, and whether it is newer than what the step read last. A copy
 * for a background step is made only if the step is due, so this looks at what would be copied. */
int64_t hd_executor_get_read_version(const struct hd_executor *executor, const struct hd_op *op,
                                     int i);
bool hd_executor_is_fresh(const struct hd_executor *executor, const struct hd_op *op, int i);

/* Whose end the window waits for: the iteration's tasks; background tasks belong to none. */
struct hd_task_group *hd_executor_get_task_group(struct hd_executor *executor, bool background);

/* A task's place in program order (shard -1: not a shard step). */
struct hd_context hd_executor_make_context(const struct hd_executor *executor,
                                           const struct hd_step *step, int64_t shard);

/* View and access i of a step on local instance `instance`, for the home of *task. */
void hd_executor_make_view(const struct hd_executor *executor, const struct hd_op *op, int i,
                           int instance, int bucket, struct hd_task *task,
                           struct hd_access *access);

/* The task that all tasks of a step on one instance are made from (shard -1: not a shard step). */
struct hd_task hd_executor_make_task(struct hd_executor *executor, const struct hd_op *op,
                                     int64_t shard);

/* Moves (transfers.c): has replica `replica` of a slot hold what the slot holds; all that an op
 * reads, to where its tasks run; what ref i of a step changed is now newest where its tasks ran. */
int hd_executor_transfer(struct hd_executor *executor, int value, struct hd_version_slot *slot,
                         int replica);
int hd_executor_transfer_reads(struct hd_executor *executor, const struct hd_op *op);
void hd_executor_note_write(struct hd_executor *executor, const struct hd_op *op, int i);

/* Steps in subtasks (subtasks.c): their memory, and their tasks for all of `instances` from
 * shard `first` on (-1: not a shard step). */
int hd_work_buffers_create(struct hd_executor *executor, const struct hd_op *op);
void hd_work_buffers_destroy(struct hd_executor *executor, struct hd_work_buffers *work);
int hd_executor_submit_subtasks(struct hd_executor *executor, const struct hd_op *op, int instances,
                                int64_t first);

/* Cross-shard sums (cross_shard_sums.c): whether a stage is followed by one; their memory; where an
 * item partials its numbers; the collective after a stage; what the collectives of an op need at
 * most.
 */
bool hd_op_has_cross_shard_sums(const struct hd_op *op, int stage);
int hd_cross_shard_sums_create(struct hd_executor *executor, const struct hd_op *op);
void hd_cross_shard_sums_destroy(struct hd_work_buffers *work);
double *hd_cross_shard_sums_get_item(const struct hd_op *op, const struct hd_work_buffers *work,
                                     int stage, int instance, int64_t item);
int hd_executor_submit_cross_shard_sums(struct hd_executor *executor, const struct hd_op *op,
                                        int stage);
void hd_cross_shard_sums_get_bytes(const struct hd_plan *plan, const struct hd_op *op,
                                   int64_t *scratch_p, int64_t *payload_p);

/* Exchanges (sharded_update.c): names of their sync points; the step `op` with its mean. */
int hd_sharded_update_make_labels(struct hd_executor *executor, const struct hd_op *op);
int hd_executor_submit_sharded_update(struct hd_executor *executor, const struct hd_op *op);

/* Reductions by several GPUs of a rank that is alone (gpu_reduce.c), and what they need of a
 * GPU's scratch. */
int hd_executor_submit_gpu_reduce(struct hd_executor *executor, const struct hd_op *op,
                                  const struct hd_collective *c);
int64_t hd_gpu_reduce_get_scratch_bytes(const struct hd_plan *plan, const struct hd_op *op);

/* Requests (control_requests.c). */
int hd_control_requests_create(struct hd_executor *executor);
void hd_control_requests_destroy(struct hd_executor *executor);
int hd_executor_apply_requests(struct hd_executor *executor);

/* Submits a step that is due, for all instances and buckets of this rank. */
int hd_executor_submit_task(struct hd_executor *executor, const struct hd_op *op);
int hd_executor_submit_collective(struct hd_executor *executor, const struct hd_op *op);

/* Submits a copy of a value's current version to a slot. */
int hd_executor_submit_snapshot(struct hd_executor *executor, int value, struct hd_version_slot *to,
                                bool background);

/* Submits the comparison of a global value between ranks. */
int hd_executor_submit_compare(struct hd_executor *executor, int value);

#endif
