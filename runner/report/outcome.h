/* SPDX-License-Identifier: Apache-2.0 */
/* Sums a run up in a few numbers. Thread safe. */
#pragma once

#include "runner/history/history.h"

/* NaN, "": the run left none. */
struct hd_outcome {
    const char *reason, *param_hash, *fingerprint;
    double last, best, train;           /* returns: of evaluations, of training episodes late */
    double updates, env_steps, seconds; /* of training */
    double best_update;
    double goal_updates, goal_env_steps,
        goal_seconds; /* at the first evaluation at the stop value */
    double ranks, shards;
    const char *missing; /* why it is no result to count on; NULL: it is one */
};

/* Reads off the outcome of a run, which refers to texts of the history. */
struct hd_outcome hd_outcome_read(const struct hd_history *history);

/* Returns an object with the fields of an outcome, null where a number is not known; NULL without
 * memory. */
json_t *hd_outcome_build_json(const struct hd_outcome *outcome);

/* Returns a number, a whole one without its point; null where it is not finite. */
json_t *hd_json_number(double value);
