/* SPDX-License-Identifier: Apache-2.0 */
/* Type `eval_result`: the result of one evaluation; none before the first. `sum` combines the
 * results of the shards of a sharded evaluation. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_eval_result;

/* An instance. All but `returns` are fields of these names in expressions. */
struct hd_eval_result {
    double mean, std, max, min; /* of the returns; std is that of the population */
    int64_t episodes;           /* env.n_evaluator_episode */
    int64_t steps;              /* env steps of these episodes */
    int64_t env_step;           /* env steps that all shards had collected when it began */
    int64_t train_iter;         /* updates made by then */
    double returns[]; /* [episodes], by env, then in the order in which they were played */
};

/* Fills mean, std, max and min from the returns. */
void hd_eval_result_summarise(struct hd_eval_result *result);

/* Returns whether the mean return of a policy after `update` updates is better than the best one so
 * far (NaN: there is none), which had best_update. A policy that has learned is better than one
 * that has not. */
bool hd_eval_result_is_better(double mean, int64_t update, double best_mean, int64_t best_update);
