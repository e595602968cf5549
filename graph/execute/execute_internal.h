/* SPDX-License-Identifier: Apache-2.0 */
/* An executor, and the functions by which it submits the ops of a plan, each group in its own file.
 * They are called by the session's thread only. Those that return int return HD_OK, HD_ERR_NOMEM
 * (logged) or the session's error. */
#pragma once

#include "graph/execute/bind.h"
#include "graph/execute/execute.h"

/* The memory of the sums after a stage (cross_shard_sums.c). */
struct hd_cross_shard_buffers {
    const struct hd_cross_shard_sums *sums; /* NULL: nothing is added up after the stage */
    int instances;
    struct hd_memory *partials; /* [instances], of all items */
    struct hd_memory total;
};

/* The memory that a step in subtasks keeps between its tasks (subtasks.c). */
struct hd_work_buffers {
    int instances;
    int64_t n;      /* instances * items */
    bool gpu;       /* its memory is on GPUs */
    void **memory;  /* [instances][items], on the instance's GPU if the step runs there */
    int passes;     /* that may be one task, so that each needs headers of its own */
    void **headers; /* [passes][instances][items], in host memory */
    struct hd_buffer **buffers;                 /* [instances][items] */
    struct hd_cross_shard_buffers *cross_shard; /* [stages] */
    int stages;
    struct hd_access *accesses; /* of the task that is being made; as many as any of them has */
    int n_accesses;
};

/* The requests of an iteration that is under way (control_requests.c). */
struct hd_control_requests {
    unsigned local, all;
    struct hd_buffer *local_buffer, *all_buffer;
    bool submitted;
};

struct hd_executor {
    struct hd_executor_options options;
    struct hd_binder binder;
    struct hd_work_buffers *work_buffers;               /* [ops] */
    struct hd_control_requests requests[HD_WINDOW_MAX]; /* iteration i's at i % window */
    const char *reason, *stop_key;                      /* of the stop step whose condition held */
};

/* -- Guards (guards.c) ------------------------------------------------------------------------- */
/* Guards decide whether a step runs, whether values are compared, and whether a stop step ends the
 * run. All ranks decide alike, because guards read only what the submitter counts and what stop
 * steps have seen. */

/* Return whether a step, a repeat or a comparison runs now. When the plan's last op, the last of
 * the comparisons, is due, the next update to compare at is set. */
bool hd_guards_is_step_due(const struct hd_binder *binder, const struct hd_op *op);
bool hd_guards_is_repeat_due(const struct hd_binder *binder, const struct hd_op *op);
bool hd_guards_is_compare_due(struct hd_binder *binder, const struct hd_op *op);

/* Records that a step has been submitted: the counters and attributes that it counts, and when it
 * is due next. */
void hd_guards_note_step(struct hd_binder *binder, const struct hd_op *op);

/* Looks at the fields that a stop step reads, if they are new, for which it waits; stores whether
 * the condition holds, as it does on every rank. Returns a status as above. */
int hd_guards_check_stop(struct hd_binder *binder, const struct hd_op *op, bool *stopped_p);

/* Returns the key of the configuration in what holds of that condition; NULL: none. */
const char *hd_guards_get_stop_key(const struct hd_binder *binder, const struct hd_op *op);

/* -- Steps ------------------------------------------------------------------------------------- */

/* All functions but one return a status as above. */
/* Submits a step for all instances and buckets of this rank, unless it is a stop; `work` matters
 * for a step in subtasks (submit.c). */
int hd_op_submit(struct hd_binder *binder, const struct hd_op *op, struct hd_work_buffers *work);
/* Returns the collective of an op as the iteration being submitted has it, without memory
 * (collectives.c). */
struct hd_collective hd_op_make_collective(struct hd_binder *binder, const struct hd_op *op);
/* Submits a collective of a step, or the comparison of a global value (collectives.c). */
int hd_op_submit_collective(struct hd_binder *binder, const struct hd_op *op);
int hd_op_submit_compare(struct hd_binder *binder, const struct hd_op *op);
/* Adds up a bucket of what the ranks' first GPUs have of a collective's result (collectives.c). */
int hd_op_submit_rank_sums(struct hd_binder *binder, const struct hd_op *op, int bucket);
/* Submits a reduction by several GPUs of a rank (gpu_reduce.c). */
int hd_op_submit_gpu_reduce(struct hd_binder *binder, const struct hd_op *op);
/* Submits a step together with the mean that it uses (sharded_update.c). */
int hd_op_submit_sharded_update(struct hd_binder *binder, const struct hd_op *op);
/* Submits all subtasks of a step on this rank: a task per instance, item and stage, and one that
 * finishes (subtasks.c). */
int hd_op_submit_subtasks(struct hd_binder *binder, const struct hd_op *op,
                          struct hd_work_buffers *work);

/* Makes the memory that an op, if it is a step in subtasks, keeps between its tasks, in `work`,
 * which is zeroed (subtasks.c). The caller calls hd_work_buffers_destroy, after a failure too.
 * Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_work_buffers_create(struct hd_binder *binder, const struct hd_op *op,
                           struct hd_work_buffers *work);
void hd_work_buffers_destroy(struct hd_binder *binder, struct hd_work_buffers *work);

/* -- Cross-shard sums (cross_shard_sums.c) ----------------------------------------------------- */
/* The numbers that the items of a stage leave are a partial per item of every instance of this
 * rank, and their total is one array. */
/* Makes zeroed memory for the sums after a stage, which outlive it, in `cross_shard`, which is
 * zeroed. The caller calls hd_cross_shard_buffers_destroy, after a failure too, before the session
 * goes. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_cross_shard_buffers_create(struct hd_binder *binder, const struct hd_cross_shard_sums *sums,
                                  struct hd_cross_shard_buffers *cross_shard);
void hd_cross_shard_buffers_destroy(struct hd_cross_shard_buffers *cross_shard);

/* Return where an item leaves its numbers, and the total, and store the access of a task that
 * writes the one and reads the other. They cannot fail. */
double *hd_cross_shard_buffers_get_partial(const struct hd_cross_shard_buffers *cross_shard,
                                           int instance, int64_t item, struct hd_access *access_p);
const double *hd_cross_shard_buffers_get_total(const struct hd_cross_shard_buffers *cross_shard,
                                               struct hd_access *access_p);

/* Submits the collective that adds up the partials of all ranks. Returns a status as above. */
int hd_cross_shard_buffers_submit(const struct hd_cross_shard_buffers *cross_shard, int channel,
                                  struct hd_binder *binder);

/* -- Copies of versions (copies.c) ------------------------------------------------------------- */

/* Submits the tasks after which a replica of a slot of `value` holds the slot's version, unless it
 * does so already. Returns a status as above. */
int hd_transfer_version(struct hd_binder *binder, int value, struct hd_version_slot *slot,
                        int replica);

/* Submits the tasks after which everything that a step reads is where the step's tasks run. Returns
 * a status as above. */
int hd_transfer_reads(struct hd_binder *binder, const struct hd_op *op);

/* Marks the start of the iteration for lagged readers of `value`, and submits the copy that they
 * need if the newest one is of an older version; and submits a copy for a background task likewise.
 * Return a status as above. */
int hd_snapshot_for_lag(struct hd_binder *binder, int value);
int hd_snapshot_for_background(struct hd_binder *binder, int value);

/* -- Control requests (control_requests.c) ----------------------------------------------------- */
/* They come from outside a run, at any moment on any rank: a rank is asked to stop, or rank 0's
 * clock says that a checkpoint is due. All ranks must apply them before the same iteration. So
 * every iteration combines the requests of all ranks, and once it has left the window every rank
 * knows the result. */

/* Makes the buffers for the iterations of a window. The caller calls hd_control_requests_destroy,
 * after a failure too. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_control_requests_create(struct hd_executor *executor);
void hd_control_requests_destroy(struct hd_executor *executor);

/* Adds the requests `local` (bits) of this rank to the iteration being submitted, and stores those
 * that all ranks must apply before it: the requests of all ranks in the iteration that has just
 * left the window; on a rank that is alone, `local`. Returns a status as above. */
int hd_control_requests_reduce(struct hd_executor *executor, unsigned local, unsigned *all_p);
