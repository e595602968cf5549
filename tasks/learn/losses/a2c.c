/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of advantage actor-critic on minibatches (kernels/learn/losses/a2c_loss.h). V-trace's is
 * the same: its advantages and targets are others (compute_advantages). */
#include "kernels/learn/losses/a2c_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/loss.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/output/schedule.h"

#include <string.h>

enum { TOTAL, POLICY, VALUE, ENTROPY, ADV_MEAN, VALUE_MEAN, N_FIELDS };

static const struct hd_scalar_field fields[N_FIELDS] = {
    [TOTAL] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [POLICY] = {"policy_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [VALUE] = {"value_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ENTROPY] = {"entropy_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ADV_MEAN] = {"adv_mean_avg", HD_MEAN, HD_LOSS_WINDOW},
    [VALUE_MEAN] = {"value_mean_avg", HD_MEAN, HD_LOSS_WINDOW},
};

struct args {
    float value_weight;
    struct hd_scheduled entropy_weight;
};

struct header {
    int64_t used;
    struct hd_a2c_sums sums;
    float entropy_weight;
};

static const struct hd_field keys[] = {
    HD_FIELD(struct args, value_weight, "policy.learn.value_weight"),
    {0},
};

static int a2c_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                       void **args_p)
{
    (void)net, (void)rows;
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    hd_config_read(setup->config, keys, args);
    return hd_scheduled_prepare(setup, HD_LOSS_SCHEDULE, "entropy_weight", &args->entropy_weight);
}

static void a2c_differentiate(const void *memory, const struct hd_loss_pass *pass)
{
    const struct args *args = memory;
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const struct hd_minibatch batch = hd_minibatch_get(view->spec, view->data);
    struct header *header = pass->header;
    header->entropy_weight = (float)hd_scheduled_get(&args->entropy_weight, pass->views);
    const struct hd_a2c_loss loss = {.batch = header->used,
                                     .actions = hd_net_count_actions(pass->net),
                                     .value_weight = args->value_weight,
                                     .entropy_weight = header->entropy_weight,
                                     .out = pass->out,
                                     .advantage = batch.advantage + pass->first,
                                     .target = batch.target + pass->first,
                                     .action = &batch.action[pass->first].choice};
    const int64_t outputs = hd_net_count_outputs(pass->net);
    memset(pass->dout, 0, (size_t)(pass->rows * outputs) * sizeof *pass->dout);
    hd_a2c_loss_compute(&loss, pass->dout, &header->sums);
}

static double a2c_sum(const void *memory, void *const *items, int64_t n, double *values,
                      double *weights)
{
    const struct args *args = memory;
    struct hd_a2c_sums sums = {0};
    double rows = 0, entropy_weight = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        sums.policy += header->sums.policy;
        sums.value += header->sums.value;
        sums.entropy += header->sums.entropy;
        sums.adv += header->sums.adv;
        sums.v += header->sums.v;
        entropy_weight = header->entropy_weight;
        rows += (double)header->used;
    }
    const double total =
        sums.policy + args->value_weight * sums.value - entropy_weight * sums.entropy;
    const double terms[N_FIELDS] = {total, sums.policy, sums.value, sums.entropy, sums.adv, sums.v};
    hd_loss_average(N_FIELDS, terms, rows, values, weights);
    return total;
}

const struct hd_loss hd_loss_a2c = {
    .name = "a2c",
    .batch = &hd_loss_minibatch,
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = a2c_prepare,
    .header_bytes = sizeof(struct header),
    .differentiate = a2c_differentiate,
    .sum = a2c_sum,
};

const struct hd_loss hd_loss_vtrace = {
    .name = "vtrace",
    .batch = &hd_loss_minibatch,
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = a2c_prepare,
    .header_bytes = sizeof(struct header),
    .differentiate = a2c_differentiate,
    .sum = a2c_sum,
};
