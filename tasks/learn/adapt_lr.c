/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `adapt_lr`: adapts the learning rate to the divergence of the policy that collected from the
 * policy that learned (policy.learn.lr_scheduler). It multiplies the rate by a factor when the
 * divergence is small and divides it when the divergence is large. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/output/scalars.h"
#include "tasks/types/output/schedule.h"

#include <math.h>
#include <string.h>

enum { MEANS, RATE };

static const struct hd_port ports[] = {
    [MEANS] = {"means", "scalars", .mode = HD_READ},
    [RATE] = {"learning_rate", "scalars", .mode = HD_UPDATE, .none = true},
    {0},
};

static const struct hd_scalar_field fields[] = {{"learning_rate", HD_MEAN, 1}};

struct args {
    bool adaptive;
    struct hd_scheduled rate;
    double low, high, factor, min, max;
};

static const struct hd_field keys[] = {
    HD_FIELD_IS(struct args, adaptive, "policy.learn.lr_scheduler.type", "kl"),
    HD_FIELD(struct args, low, "policy.learn.lr_scheduler.kl_low"),
    HD_FIELD(struct args, high, "policy.learn.lr_scheduler.kl_high"),
    HD_FIELD(struct args, factor, "policy.learn.lr_scheduler.factor"),
    HD_FIELD(struct args, min, "policy.learn.lr_scheduler.min"),
    HD_FIELD(struct args, max, "policy.learn.lr_scheduler.max"),
    {0},
};

static int adapt_lr_declare(const struct hd_setup *setup)
{
    return hd_scalars_declare(setup, setup->specs[RATE], "learner", fields, 1);
}

static int adapt_lr_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    if (hd_value_find_field(setup->specs[MEANS], "kl_avg") < 0)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "adapt_lr needs the divergence kl_avg, which '%s' does not hold",
                                 setup->specs[MEANS]->name);
    hd_config_read(setup->config, keys, args);
    HD_TRY(hd_setup_check_order(setup, "policy.learn.lr_scheduler.kl_low",
                                "policy.learn.lr_scheduler.kl_high",
                                "no divergence would leave the learning rate as it is"));
    HD_TRY(hd_setup_check_order(setup, "policy.learn.lr_scheduler.min",
                                "policy.learn.lr_scheduler.max",
                                "no learning rate lies between them"));
    args->rate.constant = hd_config_get_real(setup->config, "policy.learn.learning_rate");
    args->rate.port = RATE;
    return hd_scalars_find(setup, ports, RATE, "learning_rate", &args->rate.field);
}

static double field(const struct hd_view *view, const char *name)
{
    return view->spec->type->field(view->spec, view->data, hd_value_find_field(view->spec, name));
}

static int adapt_lr_body(struct hd_context *context, const struct hd_view *views,
                         const void *memory)
{
    (void)context;
    const struct args *args = memory;
    const double kl = field(&views[MEANS], "kl_avg");
    double rate = hd_scheduled_get(&args->rate, views);
    if (args->adaptive && kl < args->low)
        rate = fmin(rate * args->factor, args->max);
    else if (args->adaptive && kl > args->high)
        rate = fmax(rate / args->factor, args->min);
    hd_scalars_push(views[RATE].spec, views[RATE].data, 0, rate, 1);
    return HD_OK;
}

const struct hd_verb hd_verb_adapt_lr = {
    .name = "adapt_lr",
    .stream_id = 0xc2828cf3d5b2ee69,
    .ports = ports,
    .run_on_change = true,
    .declare = adapt_lr_declare,
    .prepare = adapt_lr_prepare,
    .body = adapt_lr_body,
    .help = "adapts the learning rate to the divergence between the policies before and after an "
            "iteration",
};
