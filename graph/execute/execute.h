/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a plan and submits its tasks in program order, a bounded number of iterations ahead of what
 * has run. Everything it decides by (counters, versions, guards) is a function of configuration and
 * of what stop steps saw, so all ranks submit the same collectives. */
#ifndef HD_GRAPH_EXECUTE_EXECUTE_H
#define HD_GRAPH_EXECUTE_EXECUTE_H

#include "graph/plan/plan.h"
#include "runtime/engine/session.h"
#include "runtime/io/checkpoint.h"

struct hd_executor_options {
    int window;              /* iterations submitted at most before the oldest has ended, >= 1 */
    bool rebuild;            /* build all task objects anew before every iteration (tests) */
    void (*tick)(void *arg); /* called before every iteration by the submitting thread; or NULL */
    void *tick_arg;
    /* Called before every iteration too: what this rank requests, bits of the caller's, 0: nothing.
     * When some rank has requested something, `apply_requests` is called with all requests before
     * one and the same iteration on all ranks, and may save; what it returns, unless HD_OK, ends
     * the run. NULL: nobody ever requests anything. */
    unsigned (*get_requests)(void *arg);
    int (*apply_requests)(void *arg, unsigned requests);
    void *requests_arg;
};

struct hd_executor;

/* Makes the instances of this rank with their initial versions. Plan and session outlive the
 * executor. Released by hd_executor_destroy (accepts NULL). */
int hd_executor_create(struct hd_plan *plan, struct hd_session *session,
                       const struct hd_executor_options *options, struct hd_executor **executor_p);
void hd_executor_destroy(struct hd_executor *executor);

/* Runs iterations until a stop step holds, waits for everything submitted, and stores the reason of
 * that stop step (borrowed). Returns the session's first error otherwise. */
int hd_executor_run(struct hd_executor *executor, const char **reason_p);

/* Before an iteration: waits for everything submitted, begins a checkpoint and hands over what is
 * needed to go on from here; hd_checkpoint_writer_submit is left to the caller. What is no value's
 * content is in *state_p, owned by the caller. Errors: HD_ERR_NOMEM, the session's. */
int hd_executor_save(struct hd_executor *executor, struct hd_checkpoint_writer *checkpoints,
                     json_t **state_p);

/* The other way round, before a run, whatever the number of ranks then and now. Errors (logged):
 * HD_ERR_FORMAT when the checkpoint is of another graph, HD_ERR_INPUT of other shards. */
int hd_executor_restore(struct hd_executor *executor, const struct hd_checkpoint *checkpoint,
                        const json_t *state);

/* The current version of instance `instance` (counted on this rank) of a value, on the host; NULL
 * when this rank has none, or the session has failed. Nothing may run; valid until the next run. */
const void *hd_executor_get_data(struct hd_executor *executor, int value, int instance);

/* The same, to be filled with other content before a run. */
void *hd_executor_get_writable(struct hd_executor *executor, int value, int instance);

/* Number of versions made of a value, and the value of a counter (0 when there is none so called),
 * as submitted. */
int64_t hd_executor_get_version(const struct hd_executor *executor, int value);
int64_t hd_executor_get_counter(const struct hd_executor *executor, const char *name);

#endif
