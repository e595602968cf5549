/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of PPO on minibatches (kernels/learn/losses/ppo_loss.h). */
#include "kernels/learn/losses/ppo_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/learn/losses/loss.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/output/schedule.h"

#include <math.h>
#include <string.h>

enum {
    TOTAL,
    POLICY,
    VALUE,
    ENTROPY,
    ADV_MAX,
    ADV_MEAN,
    APPROX_KL,
    CLIPFRAC,
    VALUE_MAX,
    VALUE_MEAN,
    KL,
    N_FIELDS
};

/* Maxima are averaged over updates and shards too. */
static const struct hd_scalar_field fields[N_FIELDS] = {
    [TOTAL] = {"total_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [POLICY] = {"policy_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [VALUE] = {"value_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ENTROPY] = {"entropy_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ADV_MAX] = {"adv_max_avg", HD_MEAN, HD_LOSS_WINDOW},
    [ADV_MEAN] = {"adv_mean_avg", HD_MEAN, HD_LOSS_WINDOW},
    [APPROX_KL] = {"approx_kl_avg", HD_MEAN, HD_LOSS_WINDOW},
    [CLIPFRAC] = {"clipfrac_avg", HD_MEAN, HD_LOSS_WINDOW},
    [VALUE_MAX] = {"value_max_avg", HD_MEAN, HD_LOSS_WINDOW},
    [VALUE_MEAN] = {"value_mean_avg", HD_MEAN, HD_LOSS_WINDOW},
    [KL] = {"kl_avg", HD_MEAN, HD_LOSS_WINDOW},
};

struct args {
    struct hd_scheduled clip, entropy_weight;
    float value_weight;
    bool value_clip;
};

struct header {
    int64_t used;
    struct hd_ppo_sums sums;
};

static const struct hd_field keys[] = {
    HD_FIELD(struct args, value_weight, "policy.learn.value_weight"),
    HD_FIELD(struct args, value_clip, "policy.learn.value_clip"),
    {0},
};

static int ppo_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                       void **args_p)
{
    (void)net, (void)rows;
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    hd_config_read(setup->config, keys, args);
    HD_TRY(hd_scheduled_prepare(setup, HD_LOSS_SCHEDULE, "clip_ratio", &args->clip));
    return hd_scheduled_prepare(setup, HD_LOSS_SCHEDULE, "entropy_weight", &args->entropy_weight);
}

static struct hd_ppo_loss loss_of(const struct args *args, const struct hd_loss_pass *pass,
                                  int64_t rows)
{
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const struct hd_minibatch batch = hd_minibatch_get(view->spec, view->data);
    const struct hd_minibatch_shape *shape = hd_minibatch_get_shape(view->spec);
    const int64_t first = pass->first;
    struct hd_ppo_loss loss = {.batch = rows,
                               .logits = shape->logits,
                               .dims = shape->actions.dims,
                               .gaussian = shape->actions.kind == HD_ENV_BOX,
                               .clip = (float)args->clip.constant,
                               .clip_now = hd_scheduled_find_entry(&args->clip, pass->views),
                               .value_clip = args->value_clip,
                               .value_weight = args->value_weight,
                               .entropy_weight = (float)args->entropy_weight.constant,
                               .entropy_weight_now =
                                   hd_scheduled_find_entry(&args->entropy_weight, pass->views),
                               .out = pass->out,
                               .logit_old = batch.logit + first * shape->logits,
                               .value_old = batch.value + first,
                               .advantage = batch.advantage + first,
                               .target = batch.target + first,
                               .action = batch.action + first * shape->actions.dims};
    for (int i = 0; i < loss.dims; i++)
        loss.choices[i] = (int32_t)shape->actions.n[i];
    return loss;
}

static void ppo_differentiate(const void *args, const struct hd_loss_pass *pass)
{
    struct header *header = pass->header;
    const struct hd_ppo_loss loss = loss_of(args, pass, header->used);
    const int64_t outputs = hd_net_count_outputs(pass->net);
    memset(pass->dout, 0, (size_t)(pass->rows * outputs) * sizeof *pass->dout);
    hd_ppo_loss_compute(&loss, pass->dout, &header->sums);
}

#if HD_CUDA
static int differentiate_on_gpu(const void *args, const struct hd_loss_pass *pass)
{
    const struct hd_ppo_loss loss = loss_of(args, pass, pass->rows);
    return hd_ppo_loss_compute_cuda(&loss, hd_loss_get_used_address(pass), pass->dout,
                                    &((struct header *)pass->header)->sums, pass->stream);
}
#endif

static void add(struct hd_ppo_sums *into, const struct hd_ppo_sums *sums)
{
    into->policy += sums->policy;
    into->value += sums->value;
    into->entropy += sums->entropy;
    into->approx_kl += sums->approx_kl;
    into->kl += sums->kl;
    into->clipfrac += sums->clipfrac;
    into->adv += sums->adv;
    into->v += sums->v;
    into->adv_max = fmax(into->adv_max, sums->adv_max);
    into->v_max = fmax(into->v_max, sums->v_max);
    into->entropy_weight = sums->entropy_weight;
}

static double ppo_sum(const void *memory, void *const *items, int64_t n, double *values,
                      double *weights)
{
    const struct args *args = memory;
    struct hd_ppo_sums sums = {.adv_max = -INFINITY, .v_max = -INFINITY};
    double rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        add(&sums, &header->sums);
        rows += (double)header->used;
    }
    const double total =
        sums.policy + args->value_weight * sums.value - sums.entropy_weight * sums.entropy;
    const double terms[N_FIELDS] = {
        [TOTAL] = total,
        [POLICY] = sums.policy,
        [VALUE] = sums.value,
        [ENTROPY] = sums.entropy,
        [ADV_MEAN] = sums.adv,
        [APPROX_KL] = sums.approx_kl,
        [CLIPFRAC] = sums.clipfrac,
        [VALUE_MEAN] = sums.v,
        [KL] = sums.kl,
    };
    hd_loss_average(N_FIELDS, terms, rows, values, weights);
    values[ADV_MAX] = rows > 0 ? sums.adv_max : 0;
    values[VALUE_MAX] = rows > 0 ? sums.v_max : 0;
    return total;
}

const struct hd_loss hd_loss_ppo = {
    .name = "ppo",
    .batch = &hd_loss_minibatch,
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = ppo_prepare,
    .header_bytes = sizeof(struct header),
    .differentiate = ppo_differentiate,
#if HD_CUDA
    .differentiate_on_gpu = differentiate_on_gpu,
#endif
    .sum = ppo_sum,
};
