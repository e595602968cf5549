/* SPDX-License-Identifier: Apache-2.0 */
/* A contextual bandit: the value of the action that was taken is fitted to its reward. The example
 * of docs/howto/loss.md. */
#include "runtime/base/status.h"
#include "tasks/types/data/batch.h"
#include "tests/howto/howto.h"

#include <string.h>

static const struct hd_scalar_field fields[] = {{"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW}};

/* A microbatch's header; loss_grad writes `used` before it calls `differentiate`. */
struct header {
    int64_t used;
    double loss;
};

static int prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                   void **args_p)
{
    (void)rows, (void)args_p;
    if (hd_net_get_heads(net) == HD_HEADS_ACTOR_CRITIC)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "loss bandit needs a net that yields a value of each action");
    return HD_OK;
}

static const int64_t *used(const struct hd_view *batch)
{
    return hd_batch_get_use(batch->spec, batch->data).used;
}

static const void *obs(const struct hd_loss_pass *pass)
{
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    const struct hd_transitions rows = hd_batch_get_rows(batch->spec, batch->data);
    return (const char *)rows.obs + pass->first * hd_net_get_obs_bytes(pass->net);
}

static void differentiate(const void *args, const struct hd_loss_pass *pass)
{
    (void)args;
    const struct hd_view *batch = &pass->views[HD_LOSS_BATCH];
    const struct hd_transitions rows = hd_batch_get_rows(batch->spec, batch->data);
    const int64_t actions = hd_net_count_actions(pass->net);
    struct header *header = pass->header;
    memset(pass->dout, 0, (size_t)(pass->rows * actions) * sizeof *pass->dout);
    header->loss = 0;
    for (int64_t i = 0; i < header->used; i++) {
        const int64_t at = i * actions + rows.action[pass->first + i];
        const float error = pass->out[at] - rows.reward[pass->first + i];
        pass->dout[at] = error; /* of the sum over rows, not of the mean */
        header->loss += 0.5 * (double)error * error;
    }
}

static double sum(const void *args, void *const *headers, int64_t items, double *values,
                  double *weights)
{
    (void)args;
    double loss = 0, rows = 0;
    for (int64_t i = 0; i < items; i++) {
        const struct header *header = headers[i];
        loss += header->loss;
        rows += (double)header->used;
    }
    values[0] = rows > 0 ? loss / rows : 0;
    weights[0] = rows;
    return loss;
}

const struct hd_loss hd_loss_bandit = {
    .name = "bandit",
    .batch = "batch",
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = 1,
    .prepare = prepare,
    .header_bytes = sizeof(struct header),
    .used = used,
    .obs = obs,
    .differentiate = differentiate,
    .sum = sum,
};
