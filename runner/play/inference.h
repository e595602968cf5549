/* SPDX-License-Identifier: Apache-2.0 */
/* A policy in use: found in a running graph, or loaded from a file and run alone by one rank.
 * Called by the session's thread only. */
#pragma once

#include "graph/execute/execute.h"
#include "runner/base/run_spec.h"
#include "tasks/output/inspect.h"

/* Returns the policy of a graph, which must have a value `policy`: this value and, where there are
 * such, `obs_norm` and `batch_norm_stats`; the instances of shard 0. Borrowed from the executor. */
struct hd_weights hd_weights_find(const struct hd_graph *graph, struct hd_executor *executor);

/* One rank, sequential, on one CPU. */
struct hd_inference {
    struct hd_run_spec run_spec;
    struct hd_plan *plan;
    struct hd_session *session;
    struct hd_executor *executor;
    struct hd_weights weights;
    char *config_path, *weights_path; /* of a run directory; NULL: as the options say */
};

/* Finds the files of a policy. A run directory stands for its config and, without options->weights,
 * for its best weights so far, and a file of weights for the config that it describes; the options
 * then name these. hd_inference_close releases it, after an error too. Errors (logged): those of
 * hd_run_dir_find_policy. */
int hd_inference_find(struct hd_options *options, struct hd_inference *inference_p);

/* Loads options->config, makes its graph ready to run, and loads options->weights into it.
 * `interrupted` is the session's, or NULL. hd_inference_close releases it, after an error too.
 * Errors (logged): HD_ERR_INPUT, HD_ERR_NOMEM, HD_ERR_FORMAT, HD_ERR_SYSTEM. */
int hd_inference_open(const struct hd_options *options, const atomic_int *interrupted,
                      struct hd_inference *inference_p);
void hd_inference_close(struct hd_inference *inference);
