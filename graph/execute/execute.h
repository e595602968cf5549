/* SPDX-License-Identifier: Apache-2.0 */
/* An executor walks a plan and submits its tasks in program order, a bounded number of iterations
 * ahead of those that have ended. Everything it decides by (counters, versions, guards) is a
 * function of the configuration and of what stop steps have seen, so all ranks submit the same
 * collectives. Called by the session's thread only. */
#pragma once

#include "graph/plan/plan.h"
#include "runtime/engine/session.h"
#include "runtime/io/checkpoint/checkpoint.h"

struct hd_executor_options {
    int window;              /* iterations submitted at most before the oldest has ended, >= 1 */
    bool rebuild;            /* build all task objects anew before every iteration (tests) */
    void (*tick)(void *arg); /* called before every iteration by the submitting thread; or NULL */
    void *tick_arg;
    /* Called before every iteration: returns the requests of this rank as bits that the caller
     * defines, 0: none. NULL: no rank ever requests anything. */
    unsigned (*get_requests)(void *arg);
    /* Called with the requests of all ranks, before the same iteration on all of them, when there
     * are any. It may save. A status other than HD_OK ends the run. */
    int (*apply_requests)(void *arg, unsigned requests);
    /* Called when a stop step has ended the run, after all ranks have found equal what they
     * compare. It may save: a run that is restored from there goes on at the stop step. NULL:
     * nothing. */
    int (*save_at_stop)(void *arg);
    void *requests_arg;
};

struct hd_executor;

/* Makes the instances of this rank with their initial versions, and the memory of its steps. Plan
 * and session outlive the executor, which the caller releases with hd_executor_destroy (accepts
 * NULL). Returns HD_OK, HD_ERR_INPUT for a window out of range, HD_ERR_NOMEM, or the error of a
 * type's `init` or of a GPU (all logged). */
int hd_executor_create(struct hd_plan *plan, struct hd_session *session,
                       const struct hd_executor_options *options, struct hd_executor **executor_p);
void hd_executor_destroy(struct hd_executor *executor);

/* Runs iterations until a stop step holds, waits for everything submitted, and stores the reason of
 * that stop step, which belongs to the graph. Returns HD_OK, the status of `apply_requests` or
 * `save_at_stop`, or the session's first error (logged). */
int hd_executor_run(struct hd_executor *executor, const char **reason_p);

/* Returns the key of the configuration that stands in the condition of the stop step that held, by
 * which a user may let the run go on; NULL: none. Borrowed from the graph. */
const char *hd_executor_get_stop_key(const struct hd_executor *executor);

/* Waits for everything submitted, begins a checkpoint, and adds the content of all values that the
 * run needs to go on; the caller calls hd_checkpoint_writer_submit. Stores the rest of the state in
 * *state_p, which the caller releases. May be called before an iteration and by `save_at_stop`.
 * Returns HD_OK, HD_ERR_NOMEM (logged), or the error of the session or the writer. */
int hd_executor_save(struct hd_executor *executor, struct hd_checkpoint_writer *checkpoints,
                     json_t **state_p);

/* Restores what hd_executor_save saved, on any number of ranks, before a run. Returns HD_OK,
 * HD_ERR_FORMAT if the checkpoint is of another graph, HD_ERR_INPUT if it is of another number of
 * shards, HD_ERR_NOMEM, or the error of reading it (all logged). */
int hd_executor_restore(struct hd_executor *executor, const struct hd_checkpoint *checkpoint,
                        const json_t *state);

/* Returns the current version of instance `instance`, counted on this rank, in host memory of the
 * executor; NULL if this rank has none, or the session has failed. No task may be under way; valid
 * until the next run. */
const void *hd_executor_get_data(struct hd_executor *executor, int value, int instance);

/* Returns the same memory, for the caller to change before a run. */
void *hd_executor_get_writable(struct hd_executor *executor, int value, int instance);

/* Returns how many versions of a value steps have made, as submitted. */
int64_t hd_executor_get_version(const struct hd_executor *executor, int value);

/* Returns a counter as submitted; 0 if there is none of this name. */
int64_t hd_executor_get_counter(const struct hd_executor *executor, const char *name);
