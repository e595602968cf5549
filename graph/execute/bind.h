/* SPDX-License-Identifier: Apache-2.0 */
/* A binder binds the refs of steps to memory. For the iteration being submitted it says which
 * version slot a ref reads or writes, and makes the contexts, views and accesses that tasks are
 * given. It holds everything that these and the guards of steps depend on: counters, instances, the
 * versions that steps have read, and what stop steps have seen. Called by the session's thread
 * only. */
#pragma once

#include "graph/execute/instances.h"

enum { HD_WINDOW_MAX = 64, HD_ATTRIBUTES_MAX = 4 };

struct hd_binder {
    struct hd_plan *plan;
    struct hd_session *session;
    struct hd_instances *instances; /* [values] */
    int64_t *counters;              /* [counters]; counters[0] is the iteration */
    int place; /* op of the present iteration before which the state stands, when it is saved or was
                  restored: a stop step, or 0, as between iterations */
    int64_t repeat_index; /* counted over all repeats around the present step */
    int fused_pass;       /* of the passes of a repeat whose tasks on the GPU become one: 0 ... */
    int64_t (*last_read)[HD_PORTS_MAX]; /* [steps][refs]: the version that the step read last */
    int window;                         /* iterations under way at most */
    struct hd_task_group task_groups[HD_WINDOW_MAX]; /* tasks of iteration i, at i % window */

    /* Guards go by these, beside the counters (guards.c): */
    int64_t (*attributes)[HD_ATTRIBUTES_MAX]; /* [values]: numbers that the submitter counts */
    int64_t *next_due;    /* [steps]: `every`, the counter value at which the step runs next */
    double *fields;       /* [steps][slots]: what a stop step saw last, NaN: nothing */
    int64_t next_compare; /* update at which values are compared next */
    struct hd_task_group stop_group;
};

/* Makes the instances of the plan's values with their initial versions. Plan and session outlive
 * the binder. The caller calls hd_binder_destroy, after a failure too. Returns HD_OK, HD_ERR_NOMEM
 * or the error of a type's `init` (logged). */
int hd_binder_create(struct hd_plan *plan, struct hd_session *session, int window,
                     struct hd_binder *binder);
void hd_binder_destroy(struct hd_binder *binder);

/* Returns the number of the iteration being submitted. */
static inline int64_t hd_binder_get_iteration(const struct hd_binder *binder)
{
    return binder->counters[0];
}

/* Returns the task group of the iteration being submitted. Background tasks belong to no iteration,
 * hence to no group. */
struct hd_task_group *hd_binder_get_task_group(struct hd_binder *binder);

/* Waits until all tasks of a group have ended. Returns HD_OK or the session's error. */
int hd_binder_wait(struct hd_binder *binder, struct hd_task_group *group);

/* Returns the version slot that ref i of a step reads or writes now. */
struct hd_version_slot *hd_binder_get_slot(const struct hd_binder *binder, const struct hd_op *op,
                                           int i);

/* Returns the replica of that slot which stands at `home`. */
const struct hd_replica *hd_binder_get_replica(const struct hd_binder *binder,
                                               const struct hd_op *op, int i, int home);

/* Returns whether a ref of a step that only reads would read a version other than the one that the
 * step read last. */
bool hd_binder_has_fresh(const struct hd_binder *binder, const struct hd_op *op);

/* Returns the context of a task at the present place in program order; step NULL: a task that the
 * plan adds; shard -1: not a shard step. */
struct hd_context hd_binder_make_context(const struct hd_binder *binder, const struct hd_step *step,
                                         int64_t shard);

/* The refs of a step, resolved at the present place in program order: what its tasks see of whole
 * values, and their accesses to them. */
struct hd_bound {
    struct hd_view views[HD_PORTS_MAX];
    struct hd_access accesses[HD_PORTS_MAX];
};

/* Resolves the refs of an op for tasks that run at `home` on local instance `instance` and bucket
 * `bucket`. */
void hd_binder_bind(const struct hd_binder *binder, const struct hd_op *op, int instance,
                    int bucket, int home, struct hd_bound *bound_p);

/* Returns a task of a step on a shard (-1: not a shard step) without views and accesses. */
struct hd_task hd_binder_make_task(struct hd_binder *binder, const struct hd_op *op, int64_t shard);

/* Has `home`, a GPU, run the task by `body` of its verb's form for GPUs. */
void hd_binder_set_gpu_home(struct hd_task *task, const struct hd_op *op, int home, hd_body *body);

/* Fails the session, with the place in the graph file, if a step that is due needs the content of a
 * value that is none. Returns HD_OK or HD_ERR_INPUT, alike on every rank. */
int hd_binder_check_content(const struct hd_binder *binder, const struct hd_op *op);

/* Moves on the rotations of the values that a step is about to write. */
void hd_binder_rotate_writes(struct hd_binder *binder, const struct hd_op *op);

/* Records that a step has been submitted: the versions that it has read, and those that it has made
 * and the replicas that hold them. */
void hd_binder_note_accesses(struct hd_binder *binder, const struct hd_op *op);
