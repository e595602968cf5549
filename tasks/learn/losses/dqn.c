/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of double DQN (kernels/learn/losses/dqn_loss.h). */
#include "kernels/learn/losses/dqn_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/dqn_rows.h"

#include <string.h>

struct args {
    const struct hd_net *net;
    float gamma;
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
    struct hd_dqn_header *header = pass->header;
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
                                    pass->td_errors, &((struct hd_dqn_header *)pass->header)->sums,
                                    pass->stream);
}
#endif

static double dqn_sum(const void *memory, void *const *items, int64_t n, double *values,
                      double *weights)
{
    const struct args *args = memory;
    return hd_dqn_headers_sum(hd_net_count_actions(args->net), items, n, values, weights);
}

const struct hd_loss hd_loss_dqn = {
    .name = "dqn",
    .batch = &hd_loss_batch,
    .target = true,
    .td_errors = true,
    .passes = HD_LOSS_OBS_AND_NEXT,
    .fields = hd_dqn_fields,
    .n_fields = HD_DQN_FIELDS,
    .prepare = dqn_prepare,
    .header_bytes = sizeof(struct hd_dqn_header),
    .differentiate = dqn_differentiate,
#if HD_CUDA
    .differentiate_on_gpu = differentiate_on_gpu,
#endif
    .sum = dqn_sum,
};
