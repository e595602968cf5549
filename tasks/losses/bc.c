/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of behaviour cloning: cross entropy of the recorded actions (kernels/cross_entropy.h).
 * All rows that a batch uses are learned from; what is shown leaves those out that stand in for
 * missing ones, and is the mean over all other samples of all shards. */
#include "kernels/cross_entropy.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/losses/loss.h"
#include "tasks/types/batch.h"
#include "tasks/types/params.h"

#include <string.h>

enum { TOTAL_LOSS, ACCURACY, N_FIELDS };

static const struct hd_scalar_field fields[N_FIELDS] = {
    [TOTAL_LOSS] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ACCURACY] = {"accuracy_avg", HD_MEAN, HD_LOSS_WINDOW},
};

static int prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                   void **args_p)
{
    (void)rows, (void)args_p;
    if (hd_net_heads(net) != HD_HEADS_Q)
        return hd_params_refuse_type(setup, "bc",
                                     "loss bc needs a net of one head, which yields logits");
    return HD_OK;
}

static int64_t own_bytes(const struct hd_net *net, int64_t rows)
{
    (void)net, (void)rows;
    return sizeof(struct hd_cross_entropy_sums);
}

static const void *obs(const struct hd_loss_pass *pass, int64_t *used_p)
{
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    const struct hd_transitions rows = hd_batch_rows(batch->spec, batch->data);
    *used_p = hd_batch_used(batch->spec, batch->data, pass->first, pass->rows);
    return (const char *)rows.obs + pass->first * hd_net_obs_bytes(pass->net);
}

static int64_t differentiate(const void *args, const struct hd_loss_pass *pass)
{
    (void)args;
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    const struct hd_transitions rows = hd_batch_rows(batch->spec, batch->data);
    const int64_t first = pass->first, actions = hd_net_actions(pass->net);
    const struct hd_cross_entropy loss = {
        .batch = pass->used,
        .actions = actions,
        .logit = pass->out,
        .action = rows.action + first,
        .weight = hd_batch_use(batch->spec, batch->data).weight + first,
    };
    memset(pass->dout, 0, (size_t)(pass->rows * actions) * sizeof *pass->dout);
    hd_cross_entropy(&loss, pass->dout, pass->own);
    return pass->used;
}

static double sum(const void *memory, void *const *items, int64_t n, double *values,
                  double *weights)
{
    (void)memory;
    struct hd_cross_entropy_sums sums = {0};
    for (int64_t i = 0; i < n; i++) {
        const struct hd_cross_entropy_sums *own = items[i];
        sums.loss += own->loss;
        sums.weight += own->weight;
        sums.weighted_loss += own->weighted_loss;
        sums.weighted_hits += own->weighted_hits;
    }
    values[TOTAL_LOSS] = sums.weight > 0 ? sums.weighted_loss / sums.weight : 0;
    values[ACCURACY] = sums.weight > 0 ? sums.weighted_hits / sums.weight : 0;
    for (int i = 0; i < N_FIELDS; i++)
        weights[i] = sums.weight;
    return sums.loss;
}

const struct hd_loss hd_loss_bc = {
    .name = "bc",
    .batch = "batch",
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = prepare,
    .own_bytes = own_bytes,
    .obs = obs,
    .differentiate = differentiate,
    .sum = sum,
};
