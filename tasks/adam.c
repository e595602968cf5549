/* SPDX-License-Identifier: Apache-2.0 */
/* adam: one optimizer step on a part. */
#include "kernels/adam.h"

#include "runtime/base/alloc.h"
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

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context;
    int64_t lo, hi;
    int part = views[POLICY].part;
    struct hd_moments moments = hd_adam_moments(views[OPTIMIZER].spec, views[OPTIMIZER].data);
    hd_spec_part(views[POLICY].spec, part, &lo, &hi);
    hd_adam_step(args, ++moments.updates[part], hi - lo, (const float *)views[MEAN_GRAD].data + lo,
                 moments.first + lo, moments.second + lo, (float *)views[POLICY].data + lo);
    return HD_OK;
}

const struct hd_verb hd_verb_adam = {
    .name = "adam",
    .ports = ports,
    .by_part = true,
    .prepare = prepare,
    .body = body,
    .help = "one step of Adam with the mean gradient",
};
