/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a critic of soft actor-critic: the squared distance of its values from the targets
 * that compute_targets made (kernels/learn/losses/sac_loss.h). */
#include "kernels/learn/losses/sac_loss.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/loss.h"
#include "tasks/types/data/critic_batch.h"
#include "tasks/types/learn/critic.h"

#include <string.h>

enum { LOSS, Q_VALUE, TARGET_Q_VALUE, N_FIELDS };

static const struct hd_scalar_field fields[N_FIELDS] = {
    [LOSS] = {"critic_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [Q_VALUE] = {"q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
    [TARGET_Q_VALUE] = {"target_q_value_avg", HD_MEAN, HD_LOSS_WINDOW},
};

struct header {
    int64_t used;
    struct hd_sac_critic_sums sums;
};

static int sac_critic_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                              void **args_p)
{
    (void)net, (void)rows, (void)args_p;
    return hd_critic_check(setup, setup->specs[HD_LOSS_POLICY]);
}

static void sac_critic_differentiate(const void *args, const struct hd_loss_pass *pass)
{
    (void)args;
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const struct hd_critic_batch batch = hd_critic_batch_get(view->spec, view->data);
    struct header *header = pass->header;
    memset(pass->dout, 0, (size_t)pass->rows * sizeof *pass->dout);
    hd_sac_critic_compute(header->used, pass->out, batch.target + pass->first, pass->dout,
                          &header->sums);
}

#if HD_CUDA
static int differentiate_on_gpu(const void *args, const struct hd_loss_pass *pass)
{
    (void)args;
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const struct hd_critic_batch batch = hd_critic_batch_get(view->spec, view->data);
    return hd_sac_critic_compute_cuda(pass->rows, hd_loss_get_used_address(pass), pass->out,
                                      batch.target + pass->first, pass->dout,
                                      &((struct header *)pass->header)->sums, pass->stream);
}
#endif

static double sac_critic_sum(const void *args, void *const *items, int64_t n, double *values,
                             double *weights)
{
    (void)args;
    double sums[N_FIELDS] = {0}, rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        sums[LOSS] += header->sums.loss;
        sums[Q_VALUE] += header->sums.q;
        sums[TARGET_Q_VALUE] += header->sums.target;
        rows += (double)header->used;
    }
    hd_loss_average(N_FIELDS, sums, rows, values, weights);
    return sums[LOSS];
}

const struct hd_loss hd_loss_sac_critic = {
    .name = "sac_critic",
    .batch = &hd_loss_critic_batch,
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .rate_name = "cur_lr_q_avg",
    .rate_key = "learning_rate_q",
    .prepare = sac_critic_prepare,
    .header_bytes = sizeof(struct header),
    .differentiate = sac_critic_differentiate,
#if HD_CUDA
    .differentiate_on_gpu = differentiate_on_gpu,
#endif
    .sum = sac_critic_sum,
};
