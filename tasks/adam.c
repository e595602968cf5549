/* SPDX-License-Identifier: Apache-2.0 */
/* adam: one optimizer step on a part. */
#include "kernels/adam.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/params.h"

enum { MEAN_GRAD, POLICY, OPTIMIZER };

static const struct hd_port ports[] = {
    {.name = "mean_grad", .type = "grad", .mode = HD_READ},
    {.name = "policy", .type = "params", .mode = HD_UPDATE},
    {.name = "optimizer", .type = "adam_state", .mode = HD_UPDATE},
    {0},
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    struct hd_adam *adam = hd_alloc(1, sizeof *adam);
    if (!adam)
        return HD_ERR_NOMEM;
    *adam = hd_adam_default(hd_config_real(setup->config, "policy.learn.learning_rate"));
    *args_p = adam;
    return HD_OK;
}

/* Whole blocks one after another, each with its images while it is in cache. */
static void update(const struct hd_view *views, const struct hd_adam *adam, bool first, int64_t lo,
                   int64_t hi, const float *sum, float count)
{
    const struct hd_net *net = hd_params_net(views[POLICY].spec);
    struct hd_moments moments = hd_adam_moments(views[OPTIMIZER].spec, views[OPTIMIZER].data);
    int64_t *updates = &moments.updates[views[POLICY].part];
    float *params = views[POLICY].data;
    *updates += first;
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        hd_adam_step(adam, *updates, end - at, sum + (at - lo), count, moments.first + at,
                     moments.second + at, params + at);
        hd_net_refresh(net, params, at, end);
    }
}

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context;
    int64_t lo, hi;
    hd_spec_part(views[POLICY].spec, views[POLICY].part, &lo, &hi);
    update(views, args, true, lo, hi, (const float *)views[MEAN_GRAD].data + lo, 1);
    return HD_OK;
}

static int slice(struct hd_context *context, const struct hd_view *views, const void *args,
                 int64_t lo, int64_t hi, const float *sum, float count)
{
    update(views, args, !context->again, lo, hi, sum, count > 0 ? count : 1);
    return HD_OK;
}

const struct hd_verb hd_verb_adam = {
    .name = "adam",
    .ports = ports,
    .by_part = true,
    .prepare = prepare,
    .body = body,
    .slice = slice,
    .help = "one step of Adam with the mean gradient",
};
