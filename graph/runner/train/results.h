/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run that rank 0 leaves. Called by the session's thread only. */
#ifndef HD_GRAPH_RUNNER_TRAIN_RESULTS_H
#define HD_GRAPH_RUNNER_TRAIN_RESULTS_H

#include "graph/runner/train/train.h"

/* Writes final weights, result.json, the trace, rates and the report as far as the options ask for
 * them, and prints the summary. Nothing may run any more. Errors (logged): HD_ERR_SYSTEM,
 * HD_ERR_NOMEM, HD_ERR_INPUT when the run was too short for rates. */
int hd_results_write(struct hd_train *train, const char *reason);

#endif
