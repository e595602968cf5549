/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of double DQN (kernels/dqn_loss.h). One pass of the policy's net over obs and next_obs;
 * the rows of obs go back. */
#include "kernels/dqn_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/losses/loss.h"
#include "tasks/types/batch.h"
#include "tasks/types/params.h"
#include "tasks/types/statistics.h"

#include <string.h>

enum { TOTAL_LOSS, Q_VALUE, TARGET_Q_VALUE, N_FIELDS };

static const struct hd_scalar_field fields[N_FIELDS] = {
    [TOTAL_LOSS] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [Q_VALUE] = {"q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
    [TARGET_Q_VALUE] = {"target_q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
};

struct args {
    float gamma;
};

/* The loss's own memory of a microbatch. */
struct own {
    struct hd_dqn_sums sums;
    int64_t rows, actions;
    float q[]; /* [rows][actions] of obs, then of next_obs, then the target's of next_obs */
};

static int prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                   void **args_p)
{
    if (hd_net_heads(net) == HD_HEADS_ACTOR_CRITIC)
        return hd_params_refuse_type(setup, "dqn", "loss dqn needs values of actions");
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->gamma = (float)hd_config_real(setup->config, "policy.discount_factor");
    return hd_net_prepare(net, rows, 0); /* the target's pass */
}

static int64_t own_bytes(const struct hd_net *net, int64_t rows)
{
    return (int64_t)sizeof(struct own) + 3 * rows * hd_net_actions(net) * (int64_t)sizeof(float);
}

/* The target's activations are not needed again: the policy's take their place. */
static int64_t differentiate(const void *memory, const struct hd_loss_pass *pass)
{
    const struct args *args = memory;
    const struct hd_view *policy = &pass->views[HD_LOSS_POLICY];
    const struct hd_view *target = &pass->views[HD_LOSS_TARGET];
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    const struct hd_transitions rows = hd_batch_rows(batch->spec, batch->data);
    const int64_t first = pass->first, bytes = hd_net_obs_bytes(pass->net);
    const int64_t used = hd_batch_used(batch->spec, batch->data, first, pass->rows);
    const int64_t actions = hd_net_actions(pass->net), matrix = pass->rows * actions;
    const char *obs = (const char *)rows.obs + first * bytes;
    const char *next_obs = (const char *)rows.next_obs + first * bytes;
    struct own *own = pass->own;
    struct hd_obs_norm scaled;
    const struct hd_dqn_loss loss = {
        .batch = used,
        .actions = actions,
        .nstep = hd_batch_shape(batch->spec)->nstep,
        .gamma = args->gamma,
        .q = own->q,
        .online_next = own->q + matrix,
        .target_next = own->q + 2 * matrix,
        .action = rows.action + first,
        .reward = rows.reward + first,
        .ld_reward = pass->batch,
        .done = rows.done + first,
        .value_gamma = rows.value_gamma ? rows.value_gamma + first : NULL,
    };
    own->rows = used;
    own->actions = actions;
    const struct hd_obs_norm *norm = hd_statistics_norm(&pass->views[HD_LOSS_NORM], &scaled);
    hd_net_forward(pass->net, target->data, norm, next_obs, pass->rows, pass->forward,
                   own->q + 2 * matrix);
    hd_net_forward_pair(pass->net, policy->data, norm, obs, next_obs, pass->rows, pass->forward,
                        own->q);
    memset(pass->dout + used * actions, 0, (size_t)(matrix - used * actions) * sizeof *pass->dout);
    hd_dqn_loss(&loss, pass->dout, NULL, &own->sums);
    return used;
}

static double sum(const void *memory, void *const *items, int64_t n, double *values,
                  double *weights)
{
    (void)memory;
    struct hd_dqn_sums sums = {0};
    double rows = 0, matrix = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct own *own = items[i];
        sums.loss += own->sums.loss;
        sums.q += own->sums.q;
        sums.target_q += own->sums.target_q;
        rows += (double)own->rows;
        matrix += (double)(own->rows * own->actions);
    }
    values[TOTAL_LOSS] = rows > 0 ? sums.loss / rows : 0;
    values[Q_VALUE] = rows > 0 ? sums.q / matrix : 0;
    values[TARGET_Q_VALUE] = rows > 0 ? sums.target_q / matrix : 0;
    for (int i = 0; i < N_FIELDS; i++)
        weights[i] = rows > 0;
    return sums.loss;
}

const struct hd_loss hd_loss_dqn = {
    .name = "dqn",
    .batch = "batch",
    .target = true,
    .passes = HD_LOSS_OBS_AND_NEXT,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = prepare,
    .own_bytes = own_bytes,
    .differentiate = differentiate,
    .sum = sum,
};
