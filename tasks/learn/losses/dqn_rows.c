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
