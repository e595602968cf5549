/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of QR-DQN (kernels/learn/losses/qrdqn_loss.h). */
#include "kernels/learn/losses/qrdqn_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/dqn_rows.h"

#include <string.h>

struct args {
    int64_t outputs, quantiles;
    double gamma;
};

static const struct hd_field keys[] = {
    HD_FIELD(struct args, quantiles, "policy.model.num_quantiles"),
    HD_FIELD(struct args, gamma, "policy.discount_factor"),
    {0},
};

static int qrdqn_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                         void **args_p)
{
    (void)rows;
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    hd_config_read(setup->config, keys, args);
    args->outputs = hd_net_count_outputs(net);
    return HD_OK;
}

static void qrdqn_differentiate(const void *memory, const struct hd_loss_pass *pass)
{
    const struct args *args = memory;
    struct hd_dqn_header *header = pass->header;
    const struct hd_qrdqn_loss loss = {.rows =
                                           hd_dqn_rows_get(pass, args->outputs / args->quantiles,
                                                           (float)args->gamma, header->used),
                                       .quantiles = args->quantiles};
    memset(pass->dout + header->used * args->outputs, 0,
           (size_t)((pass->rows - header->used) * args->outputs) * sizeof *pass->dout);
    hd_qrdqn_loss_compute(&loss, pass->dout, pass->td_errors, &header->sums);
}

static double qrdqn_sum(const void *memory, void *const *items, int64_t n, double *values,
                        double *weights)
{
    const struct args *args = memory;
    return hd_dqn_headers_sum(args->outputs, items, n, values, weights);
}

const struct hd_loss hd_loss_qrdqn = {
    .name = "qrdqn",
    .batch = &hd_loss_batch,
    .target = true,
    .td_errors = true,
    .passes = HD_LOSS_OBS_AND_NEXT,
    .fields = hd_dqn_fields,
    .n_fields = HD_DQN_FIELDS,
    .prepare = qrdqn_prepare,
    .header_bytes = sizeof(struct hd_dqn_header),
    .differentiate = qrdqn_differentiate,
    .sum = qrdqn_sum,
};
