/* SPDX-License-Identifier: Apache-2.0 */
/* Guards decide whether a step runs, whether values are compared, and whether a stop step ends the
 * run. All ranks decide alike, because guards read only what the submitter counts and what stop
 * steps have seen. Called by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_GUARDS_H
#define HD_GRAPH_EXECUTE_GUARDS_H

#include "graph/execute/bind.h"

enum { HD_ATTRIBUTES_MAX = 4 };

struct hd_guards {
    struct hd_binder *binder;
    int64_t (*attributes)[HD_ATTRIBUTES_MAX]; /* [values]: numbers that the submitter counts */
    int64_t *next_due;    /* [steps]: `every`, the counter value at which the step runs next */
    double **fields;      /* [steps][slots]: what a stop step saw last, NaN: nothing; NULL for other
                             steps */
    int64_t next_compare; /* update at which values are compared next */
    struct hd_task_group stop_group;
};

/* Makes the guards of the binder's plan; the binder outlives them. The caller calls
 * hd_guards_destroy, after a failure too. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_guards_create(struct hd_binder *binder, struct hd_guards *guards);
void hd_guards_destroy(struct hd_guards *guards);

/* Return whether a step, a repeat or a comparison runs now. When the plan's last op, the last of
 * the comparisons, is due, the next update to compare at is set. */
bool hd_guards_is_step_due(const struct hd_guards *guards, const struct hd_op *op);
bool hd_guards_is_repeat_due(const struct hd_guards *guards, const struct hd_op *op);
bool hd_guards_is_compare_due(struct hd_guards *guards, const struct hd_op *op);

/* Records that a step has been submitted: the counters and attributes that it counts, and when it
 * is due next. */
void hd_guards_note_step(struct hd_guards *guards, const struct hd_op *op);

/* Looks at the fields that a stop step reads, if they are new, for which it waits; stores whether
 * the condition holds, as it does on every rank. Returns HD_OK, HD_ERR_NOMEM (logged) or the
 * session's error. */
int hd_guards_check_stop(struct hd_guards *guards, const struct hd_op *op, bool *stopped_p);

/* Returns the key of the configuration in what holds of that condition; NULL: none. */
const char *hd_guards_get_stop_key(const struct hd_guards *guards, const struct hd_op *op);

#endif
