/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/losses/dqn_rows.h"

#include "tasks/types/data/batch.h"

struct hd_dqn_loss hd_dqn_rows_get(const struct hd_loss_pass *pass, int64_t actions, float gamma,
                                   int64_t rows)
{
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    const struct hd_transitions from = hd_batch_get_rows(batch->spec, batch->data);
    const float *importance = hd_batch_get_draws(batch->spec, batch->data).importance;
    const int64_t first = pass->first;
    return (struct hd_dqn_loss){
        .batch = rows,
        .actions = actions,
        .nstep = hd_batch_get_shape(batch->spec)->nstep,
        .gamma = gamma,
        .q = pass->out,
        .online_next = pass->out + pass->rows * hd_net_count_outputs(pass->net),
        .target_next = pass->target_next,
        .action = &from.action[first].choice,
        .reward = from.reward + first,
        .ld_reward = pass->batch,
        .done = from.done + first,
        .value_gamma = from.value_gamma ? from.value_gamma + first : NULL,
        .importance = importance ? importance + first : NULL,
    };
}

enum { TOTAL_LOSS, Q_VALUE, TARGET_Q_VALUE };

const struct hd_scalar_field hd_dqn_fields[HD_DQN_FIELDS] = {
    [TOTAL_LOSS] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [Q_VALUE] = {"q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
    [TARGET_Q_VALUE] = {"target_q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
};

double hd_dqn_headers_sum(int64_t outputs, void *const *items, int64_t n, double *values,
                          double *weights)
{
    struct hd_dqn_sums sums = {0};
    double rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct hd_dqn_header *header = items[i];
        sums.loss += header->sums.loss;
        sums.q += header->sums.q;
        sums.target_q += header->sums.target_q;
        rows += (double)header->used;
    }
    const double matrix = rows * (double)outputs;
    values[TOTAL_LOSS] = rows > 0 ? sums.loss / rows : 0;
    values[Q_VALUE] = rows > 0 ? sums.q / matrix : 0;
    values[TARGET_Q_VALUE] = rows > 0 ? sums.target_q / matrix : 0;
    for (int i = 0; i < HD_DQN_FIELDS; i++)
        weights[i] = rows > 0;
    return sums.loss;
}
