/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of double DQN (kernels/learn/losses/dqn_loss.h). */
#include "kernels/learn/losses/dqn_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/dqn_rows.h"

#include <string.h>

enum { TOTAL_LOSS, Q_VALUE, TARGET_Q_VALUE, N_FIELDS };

static const struct hd_scalar_field fields[N_FIELDS] = {
    [TOTAL_LOSS] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [Q_VALUE] = {"q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
    [TARGET_Q_VALUE] = {"target_q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
};

struct args {
    const struct hd_net *net;
    float gamma;
};

struct header {
    int64_t used;
    struct hd_dqn_sums sums;
};

static int dqn_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                       void **args_p)
{
    (void)rows;
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->net = net;
    args->gamma = (float)hd_config_get_real(setup->config, "policy.discount_factor");
    return HD_OK;
}

static void dqn_differentiate(const void *args, const struct hd_loss_pass *pass)
{
    struct header *header = pass->header;
    const struct args *from = args;
    const struct hd_dqn_loss loss =
        hd_dqn_rows_get(pass, hd_net_count_actions(pass->net), from->gamma, header->used);
    const int64_t rows = pass->rows, actions = loss.actions;
    memset(pass->dout + header->used * actions, 0,
           (size_t)((rows - header->used) * actions) * sizeof *pass->dout);
    hd_dqn_loss_compute(&loss, pass->dout, pass->td_errors, &header->sums);
}

#if HD_CUDA
static int differentiate_on_gpu(const void *args, const struct hd_loss_pass *pass)
{
    const struct args *from = args;
    const struct hd_dqn_loss loss =
        hd_dqn_rows_get(pass, hd_net_count_actions(pass->net), from->gamma, pass->rows);
    return hd_dqn_loss_compute_cuda(&loss, hd_loss_get_used_address(pass), pass->dout,
                                    pass->td_errors, &((struct header *)pass->header)->sums,
                                    pass->stream);
}
#endif

static double dqn_sum(const void *memory, void *const *items, int64_t n, double *values,
                      double *weights)
{
    const struct args *args = memory;
    struct hd_dqn_sums sums = {0};
    double rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        sums.loss += header->sums.loss;
        sums.q += header->sums.q;
        sums.target_q += header->sums.target_q;
        rows += (double)header->used;
    }
    const double matrix = rows * (double)hd_net_count_actions(args->net);
    values[TOTAL_LOSS] = rows > 0 ? sums.loss / rows : 0;
    values[Q_VALUE] = rows > 0 ? sums.q / matrix : 0;
    values[TARGET_Q_VALUE] = rows > 0 ? sums.target_q / matrix : 0;
    for (int i = 0; i < N_FIELDS; i++)
        weights[i] = rows > 0;
    return sums.loss;
}

const struct hd_loss hd_loss_dqn = {
    .name = "dqn",
    .batch = &hd_loss_batch,
    .target = true,
    .td_errors = true,
    .passes = HD_LOSS_OBS_AND_NEXT,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = dqn_prepare,
    .header_bytes = sizeof(struct header),
    .differentiate = dqn_differentiate,
#if HD_CUDA
    .differentiate_on_gpu = differentiate_on_gpu,
#endif
    .sum = dqn_sum,
};
