/* SPDX-License-Identifier: Apache-2.0 */
/* Type `eval_result`: the outcome of one evaluation; none before the first. Those of shards that
 * each played their share of it are combined by `sum`. */
#ifndef HD_TASKS_TYPES_OUTPUT_EVAL_RESULT_H
#define HD_TASKS_TYPES_OUTPUT_EVAL_RESULT_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_eval_result;

/* An instance. All but `returns` are fields of the same names in expressions. */
struct hd_eval_result {
    double mean, std, max, min; /* of the returns; std of the population */
    int64_t episodes;           /* env.n_evaluator_episode */
    int64_t steps;              /* env steps of these episodes */
    int64_t env_step;           /* collected by all shards when this was evaluated */
    int64_t train_iter;         /* updates made by then */
    double returns[];           /* [episodes], by env, then in order of play */
};

/* Fills mean, std, max and min from the returns. */
void hd_eval_result_summarise(struct hd_eval_result *result);

#endif
