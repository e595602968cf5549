/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of behaviour cloning: cross entropy of the recorded actions
 * (kernels/learn/losses/cross_entropy.h). All rows that a batch uses are learned from. The
 * statistics leave out rows that stand in for missing ones and are means over all other samples of
 * all shards.
 */
#include "kernels/learn/losses/cross_entropy.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/loss.h"
#include "tasks/types/data/batch.h"

#include <string.h>

enum { TOTAL_LOSS, ACCURACY, N_FIELDS };

static const struct hd_scalar_field fields[N_FIELDS] = {
    [TOTAL_LOSS] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ACCURACY] = {"accuracy_avg", HD_MEAN, HD_LOSS_WINDOW},
};

static int bc_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                      void **args_p)
{
    (void)setup, (void)net, (void)rows, (void)args_p;
    return HD_OK;
}

struct header {
    int64_t used;
    struct hd_cross_entropy_sums sums;
};

static struct hd_cross_entropy loss_of(const struct hd_loss_pass *pass, int64_t rows)
{
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    return (struct hd_cross_entropy){
        .batch = rows,
        .actions = hd_net_count_actions(pass->net),
        .logit = pass->out,
        .action = &hd_batch_get_rows(batch->spec, batch->data).action[pass->first].choice,
        .weight = hd_batch_get_use(batch->spec, batch->data).weight + pass->first,
    };
}

static void bc_differentiate(const void *args, const struct hd_loss_pass *pass)
{
    (void)args;
    struct header *header = pass->header;
    const struct hd_cross_entropy loss = loss_of(pass, header->used);
    memset(pass->dout, 0, (size_t)(pass->rows * loss.actions) * sizeof *pass->dout);
    hd_cross_entropy_compute(&loss, pass->dout, &header->sums);
}

#if HD_CUDA
static int differentiate_on_gpu(const void *args, const struct hd_loss_pass *pass)
{
    (void)args;
    const struct hd_cross_entropy loss = loss_of(pass, pass->rows);
    return hd_cross_entropy_compute_cuda(&loss, hd_loss_get_used_address(pass), pass->dout,
                                         &((struct header *)pass->header)->sums, pass->stream);
}
#endif

static double bc_sum(const void *memory, void *const *items, int64_t n, double *values,
                     double *weights)
{
    (void)memory;
    struct hd_cross_entropy_sums sums = {0};
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        sums.loss += header->sums.loss;
        sums.weight += header->sums.weight;
        sums.weighted_loss += header->sums.weighted_loss;
        sums.weighted_hits += header->sums.weighted_hits;
    }
    values[TOTAL_LOSS] = sums.weight > 0 ? sums.weighted_loss / sums.weight : 0;
    values[ACCURACY] = sums.weight > 0 ? sums.weighted_hits / sums.weight : 0;
    for (int i = 0; i < N_FIELDS; i++)
        weights[i] = sums.weight;
    return sums.loss;
}

const struct hd_loss hd_loss_bc = {
    .name = "bc",
    .batch = &hd_loss_batch,
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = bc_prepare,
    .header_bytes = sizeof(struct header),
    .differentiate = bc_differentiate,
#if HD_CUDA
    .differentiate_on_gpu = differentiate_on_gpu,
#endif
    .sum = bc_sum,
};
