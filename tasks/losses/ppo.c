/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of PPO (kernels/ppo_loss.h) on minibatches. */
#include "kernels/ppo_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/losses/loss.h"
#include "tasks/types/minibatch.h"
#include "tasks/types/params.h"

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

/* Means of maxima too. */
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
    float clip, value_weight, entropy_weight;
    bool value_clip;
};

/* The loss's own memory of a microbatch. */
struct own {
    struct hd_ppo_sums sums;
    int64_t used;
};

static int prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                   void **args_p)
{
    (void)rows;
    const struct hd_config *config = setup->config;
    if (hd_net_heads(net) != HD_HEADS_ACTOR_CRITIC)
        return hd_params_refuse_type(setup, "ppo", "loss ppo needs an actor and a critic");
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->clip = (float)hd_config_real(config, "policy.learn.clip_ratio");
    args->value_weight = (float)hd_config_real(config, "policy.learn.value_weight");
    args->entropy_weight = (float)hd_config_real(config, "policy.learn.entropy_weight");
    args->value_clip = hd_config_bool(config, "policy.learn.value_clip");
    return HD_OK;
}

static int64_t own_bytes(const struct hd_net *net, int64_t rows)
{
    (void)net, (void)rows;
    return sizeof(struct own);
}

static const void *obs(const struct hd_loss_pass *pass, int64_t *used_p)
{
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const struct hd_minibatch batch = hd_minibatch_at(view->spec, view->data);
    const int64_t left = *batch.used - pass->first;
    *used_p = left < 0 ? 0 : left < pass->rows ? left : pass->rows;
    return batch.obs + pass->first * hd_net_obs_bytes(pass->net);
}

static int64_t differentiate(const void *memory, const struct hd_loss_pass *pass)
{
    const struct args *args = memory;
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const struct hd_minibatch batch = hd_minibatch_at(view->spec, view->data);
    const int64_t first = pass->first, actions = hd_net_actions(pass->net);
    const int64_t outputs = hd_net_outputs(pass->net);
    struct own *own = pass->own;
    own->used = pass->used;
    const struct hd_ppo_loss loss = {.batch = own->used,
                                     .actions = actions,
                                     .clip = args->clip,
                                     .value_clip = args->value_clip,
                                     .value_weight = args->value_weight,
                                     .entropy_weight = args->entropy_weight,
                                     .out = pass->out,
                                     .logit_old = batch.logit + first * actions,
                                     .value_old = batch.value + first,
                                     .advantage = batch.advantage + first,
                                     .target = batch.target + first,
                                     .action = batch.action + first};
    memset(pass->dout, 0, (size_t)(pass->rows * outputs) * sizeof *pass->dout);
    hd_ppo_loss(&loss, pass->dout, &own->sums);
    return own->used;
}

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
}

static double sum(const void *memory, void *const *items, int64_t n, double *values,
                  double *weights)
{
    const struct args *args = memory;
    struct hd_ppo_sums sums = {.adv_max = -INFINITY, .v_max = -INFINITY};
    double used = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct own *own = items[i];
        add(&sums, &own->sums);
        used += (double)own->used;
    }
    const double total =
        sums.policy + args->value_weight * sums.value - args->entropy_weight * sums.entropy;
    const double means[N_FIELDS] = {
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
    for (int i = 0; i < N_FIELDS; i++) {
        values[i] = used > 0 ? means[i] / used : 0;
        weights[i] = used > 0;
    }
    values[ADV_MAX] = used > 0 ? sums.adv_max : 0;
    values[VALUE_MAX] = used > 0 ? sums.v_max : 0;
    return total;
}

const struct hd_loss hd_loss_ppo = {
    .name = "ppo",
    .batch = "minibatch",
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = prepare,
    .own_bytes = own_bytes,
    .obs = obs,
    .differentiate = differentiate,
    .sum = sum,
};
