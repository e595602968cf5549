/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `outer_step`: moves parameters towards the mean of those that shards have learned by
 * themselves, bucket by bucket, as by the gradient params - mean: SGD with Nesterov's momentum as
 * PyTorch has it, which is DiLoCo's outer optimizer (Douillard et al. 2023). A learning rate of 1
 * without momentum makes them the mean. */
#include "kernels/net/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/params.h"

enum { MEAN, POLICY, MOMENTUM };

static const struct hd_port ports[] = {
    [MEAN] = {"mean", "params", .mode = HD_READ},
    [POLICY] = {"policy", "params", .mode = HD_UPDATE},
    [MOMENTUM] = {"momentum", "momentum", .mode = HD_UPDATE, .optional = true},
    {0},
};

struct args {
    double rate, momentum;
};

static const struct hd_field keys[] = {
    HD_FIELD(struct args, rate, "policy.learn.outer.learning_rate"),
    HD_FIELD(struct args, momentum, "policy.learn.outer.momentum"),
    {0},
};

static int outer_step_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    hd_config_read(setup->config, keys, args);
    if (setup->specs[MOMENTUM])
        HD_TRY(hd_params_check_made_of(setup, setup->specs[MOMENTUM], setup->specs[POLICY]));
    else if (args->momentum > 0)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "policy.learn.outer.momentum %g needs a value of type momentum "
                                 "under `updates`",
                                 args->momentum);
    return hd_params_check_same_net(setup, setup->specs[MEAN], setup->specs[POLICY]);
}

static void move(const struct args *args, int64_t n, const float *restrict mean,
                 float *restrict momentum, float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        double step = (double)to[i] - mean[i];
        if (momentum) {
            momentum[i] = (float)(args->momentum * momentum[i] + step);
            step += args->momentum * momentum[i];
        }
        to[i] = (float)(to[i] - args->rate * step);
    }
}

/* Moves whole blocks one after another, each with its shadow weights while it is in cache. */
static int outer_step_body(struct hd_context *context, const struct hd_view *views,
                           const void *memory)
{
    (void)context;
    const struct args *args = memory;
    const struct hd_view *policy = &views[POLICY];
    const float *mean = views[MEAN].data;
    float *momentum = views[MOMENTUM].data, *to = policy->data;
    int64_t lo, hi;
    hd_spec_get_bucket(policy->spec, policy->bucket, &lo, &hi);
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        const int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        move(args, end - at, mean + at, momentum ? momentum + at : NULL, to + at);
        hd_net_refresh(hd_params_get_net(policy->spec), to, at, end);
    }
    return HD_OK;
}

const struct hd_verb hd_verb_outer_step = {
    .name = "outer_step",
    .stream_id = 0x93b1e07d5c24fa86,
    .ports = ports,
    .by_bucket = true,
    .prepare = outer_step_prepare,
    .body = outer_step_body,
    .help = "moves parameters towards the mean of those that shards have learned by themselves",
};
