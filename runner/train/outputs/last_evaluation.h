/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluation of the last weights of a run that ended at a limit (policy.eval.at_limit), and
 * which weights are the best that it leaves. It is no part of the run: no checkpoint and no log has
 * it, so that a run that goes on beyond its limit is one that never stopped. Called by the
 * session's thread on rank 0, when no task runs any more. */
#pragma once

#include "runner/train/base/train.h"

/* Holds what is known of the policies of a run. A mean that is NaN is not known. */
struct hd_last_evaluation {
    double mean, *returns; /* of the last weights [n], freed with hd_free; NULL: not played */
    int64_t n;             /* env.n_evaluator_episode */
    double best_mean;      /* of the evaluations in the run */
    int64_t best_update;   /* after so many updates */
    double latest_mean;    /* of the run's latest evaluation */
    int64_t latest_update; /* after so many updates */
    bool last_is_best;     /* the last weights are the best that the run leaves */
};

/* Plays the episodes of an evaluation with the last weights, from the seeds of all evaluations of
 * the run, if a limit ended it and its latest evaluation is of earlier weights. A signal or an env
 * that fails ends that with a warning. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_last_evaluation_play(struct hd_train *train, const char *reason, int64_t updates,
                            struct hd_last_evaluation *evaluation_p);
