/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `adapt_temperature`: makes one step of Adam on the temperature of soft actor-critic, by
 * which the policy's entropy becomes policy.learn.target_entropy_per_dim for each number of an
 * action (Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", equation 18): the
 * loss is the mean of - alpha (log probability + target), by the logarithm of alpha. */
#include "kernels/learn/adam.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/learn/temperature.h"
#include "tasks/types/output/scalars.h"

#include <math.h>

enum { MEANS, TEMPERATURE };

static const struct hd_port ports[] = {
    [MEANS] = {"means", "scalars", .mode = HD_READ},
    [TEMPERATURE] = {"temperature", "temperature", .mode = HD_UPDATE},
    {0},
};

struct args {
    struct hd_adam adam;
    double target;
    int log_prob; /* index of the field log_prob_avg */
    bool adapts;
};

static const struct hd_field keys[] = {
    HD_FIELD(struct args, adam.learning_rate, "policy.learn.learning_rate_alpha"),
    HD_FIELD(struct args, adam.epsilon, "policy.learn.adam_eps"),
    HD_FIELD(struct args, target, "policy.learn.target_entropy_per_dim"), /* of one dimension */
    HD_FIELD(struct args, adapts, "policy.learn.auto_alpha"),
    {0},
};

static int adapt_temperature_prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_config *config = setup->config;
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    const struct hd_env_actions actions = hd_actions_read(config);
    args->adam = hd_adam_make(0);
    hd_config_read(config, keys, args);
    args->target *= actions.dims;
    return hd_scalars_find(setup, ports, MEANS, "log_prob_avg", &args->log_prob);
}

/* A mean that is not there, of updates that were skipped, changes nothing. */
static int adapt_temperature_body(struct hd_context *context, const struct hd_view *views,
                                  const void *memory)
{
    (void)context;
    const struct args *args = memory;
    struct hd_temperature *temperature = views[TEMPERATURE].data;
    const double log_prob =
        views[MEANS].spec->type->field(views[MEANS].spec, views[MEANS].data, args->log_prob);
    if (!args->adapts || isnan(log_prob))
        return HD_OK;
    const float slope =
        (float)(-(double)hd_temperature_get(temperature) * (log_prob + args->target));
    hd_adam_step(&args->adam, ++temperature->updates, 1, &slope, 1, 1, &temperature->first,
                 &temperature->second, &temperature->log_alpha);
    return HD_OK;
}

const struct hd_verb hd_verb_adapt_temperature = {
    .name = "adapt_temperature",
    .stream_id = 0xc35d08e17a64f29b,
    .ports = ports,
    .prepare = adapt_temperature_prepare,
    .body = adapt_temperature_body,
    .help = "makes one step of Adam on the weight of the entropy",
};
