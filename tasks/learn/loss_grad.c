/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `loss_grad`: computes the gradient of a loss over a shard's batch, as a sum over samples. An
 * item is a microbatch, whose gradient is a partial of the tree in which the samples of all shards
 * are added.
 *
 * A loss that is not finite ends the run. With runtime.on_nan: skip the count of such a microbatch
 * becomes NaN instead; so does the count of every sum that includes it, on every rank, and adam
 * then leaves the parameters as they are. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/learn/freeze.h"
#include "tasks/learn/loss_grad_internal.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/base/sequences.h"
#include "tasks/types/data/priorities.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"

#include <math.h>
#include <string.h>

static const struct hd_port ports[] = {
    [HD_LOSS_POLICY] = {"policy", "params", .mode = HD_READ, .scope = HD_SCOPE_STAGE_RANGE},
    [HD_LOSS_TARGET] = {"target", "params", .mode = HD_READ, .optional = true, .early = true},
    [HD_LOSS_BATCH] = {"batch", NULL, .mode = HD_READ, .early = true},
    [HD_LOSS_STATS] = {"stats", "scalars", .mode = HD_UPDATE, .none = true, .optional = true,
                       .scope = HD_SCOPE_FINISH},
    [HD_LOSS_GRAD] = {"grad", "grad", .mode = HD_WRITE, .scope = HD_SCOPE_STAGE_RANGE,
                      .gpu_order = true},
    [HD_LOSS_NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true, .early = true},
    [HD_LOSS_BATCH_NORM_STATS] = {"batch_norm_stats", "batch_norm_stats", .mode = HD_UPDATE,
                                  .optional = true, .scope = HD_SCOPE_FINISH},
    [HD_LOSS_RATE] = {"learning_rate", "scalars", .mode = HD_READ, .none = true, .optional = true,
                      .scope = HD_SCOPE_FINISH},
    [HD_LOSS_CRITIC1] = {"critic1", "params", .mode = HD_READ, .optional = true},
    [HD_LOSS_CRITIC2] = {"critic2", "params", .mode = HD_READ, .optional = true},
    [HD_LOSS_TEMPERATURE] = {"temperature", "temperature", .mode = HD_READ, .optional = true},
    [HD_LOSS_TD_ERRORS] = {"td_errors", "td_errors", .mode = HD_WRITE, .optional = true,
                           .scope = HD_SCOPE_ITEM},
    [HD_LOSS_SCHEDULE] = {"schedule", "scalars", .mode = HD_READ, .none = true, .optional = true,
                          .scope = HD_SCOPE_ALL},
    {0},
};

static const struct hd_option options[] = {{"loss", HD_LOSS_NAMES, true}, {0}};

static bool skips(const struct hd_setup *setup)
{
    return strcmp(hd_config_get_text(setup->config, "runtime.on_nan"), "skip") == 0;
}

static int loss_grad_declare(const struct hd_setup *setup)
{
    const struct hd_loss *loss = hd_loss_find(setup);
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[HD_LOSS_NORM]));
    struct hd_scalar_field fields[HD_LOSS_FIELDS_MAX] = {
        {loss->rate_name ? loss->rate_name : "cur_lr_avg", HD_MEAN, HD_LOSS_WINDOW}};
    int n = 1 + loss->n_fields;
    memcpy(fields + 1, loss->fields, (size_t)loss->n_fields * sizeof *fields);
    if (skips(setup))
        fields[n++] = (struct hd_scalar_field){"skipped_avg", HD_MEAN, HD_LOSS_WINDOW};
    return hd_scalars_declare(setup, setup->specs[HD_LOSS_STATS], "learner", fields, n);
}

static int check_ports(const struct hd_setup *setup, const struct hd_loss *loss)
{
    const struct hd_spec *batch = setup->specs[HD_LOSS_BATCH];
    const struct hd_policy *policy = hd_policy_find(loss->name);
    if (strcmp(batch->type->name, loss->batch->type) != 0)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "loss %s takes a batch of type %s, but '%s' is of type %s%s%s%s",
                                 loss->name, loss->batch->type, batch->name, batch->type->name,
                                 policy ? ": it learns by graphs/" : "",
                                 policy ? policy->graph : "", policy ? ".yaml" : "");
    if (loss->target != (setup->specs[HD_LOSS_TARGET] != NULL))
        return hd_diag_add_error(setup->diag, setup->location, "loss %s %s (port 'target')",
                                 loss->name,
                                 loss->target ? "needs a second value of type params under `reads`"
                                              : "has no use for a target net");
    for (int port = HD_LOSS_CRITIC1; port <= HD_LOSS_TEMPERATURE; port++)
        if (loss->critics != (setup->specs[port] != NULL))
            return hd_diag_add_error(setup->diag, setup->location, "loss %s %s a %s (port '%s')",
                                     loss->name, loss->critics ? "needs" : "has no use for",
                                     port == HD_LOSS_TEMPERATURE ? "temperature" : "critic",
                                     ports[port].name);
    return hd_params_check_made_of(setup, setup->specs[HD_LOSS_GRAD], setup->specs[HD_LOSS_POLICY]);
}

static int check_priority(const struct hd_setup *setup, const struct hd_loss *loss)
{
    const bool priority = hd_config_get_bool(setup->config, "policy.priority");
    if (priority && !loss->td_errors)
        return hd_diag_add_error(
            setup->diag, hd_config_locate(setup->config, "policy.priority", setup->location),
            "policy.priority: loss %s has no temporal-difference errors from "
            "which priorities could follow; loss dqn has",
            loss->name);
    if (!priority && hd_config_get_bool(setup->config, "policy.priority_IS_weight"))
        return hd_diag_add_error(
            setup->diag,
            hd_config_locate(setup->config, "policy.priority_IS_weight", setup->location),
            "policy.priority_IS_weight: true needs policy.priority: true");
    return hd_priorities_check_use(setup, setup->specs[HD_LOSS_TD_ERRORS], "td_errors");
}

static int check_norm(const struct hd_setup *setup, const struct hd_loss_grad *args)
{
    if (args->levels > 0 && args->loss->passes != HD_LOSS_OBS)
        return hd_diag_add_error(
            setup->diag, hd_config_locate(setup->config, "policy.model.norm", setup->location),
            "norm: loss %s takes a batch through its nets more than once, each "
            "time of other statistics; it needs nets without norms",
            args->loss->name);
    if (args->levels > 0 && args->learns)
        return hd_diag_add_error(
            setup->diag, hd_config_locate(setup->config, "policy.learn.freeze", setup->location),
            "policy.learn.freeze: the net has norms, whose running statistics would move all the "
            "same");
    if (args->levels > 0 && args->skips)
        return hd_diag_add_error(
            setup->diag, hd_config_locate(setup->config, "policy.model.norm", setup->location),
            "norm: with runtime.on_nan: skip nets cannot have norms, whose running "
            "statistics would take in what is skipped");
    return hd_batch_norm_stats_check(setup, setup->specs[HD_LOSS_POLICY], HD_LOSS_BATCH_NORM_STATS);
}

static int check_microbatch(const struct hd_setup *setup, struct hd_loss_grad *args)
{
    const struct hd_learn_shape learn = hd_learn_shape_read(setup->config);
    const bool asked = hd_config_get_int(setup->config, "policy.learn.microbatch") > 0;
    const char *key = asked ? "policy.learn.microbatch" : "policy.learn.batch_size";
    args->batch = learn.rows;
    args->micro = learn.micro;
    args->items = learn.partials;
    if (learn.rows % learn.micro == 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, hd_config_locate(setup->config, key, setup->location),
                             "%s: expected a divisor of the batch's %lld rows, found %lld%s", key,
                             (long long)learn.rows, (long long)learn.micro,
                             asked ? "" : "; policy.learn.microbatch may be one instead");
}

/* Microbatches of a recurrent net are whole sequences. */
static int check_sequences(const struct hd_setup *setup, struct hd_loss_grad *args)
{
    const struct hd_sequences sequences = hd_sequences_read(setup->config);
    const bool asked = hd_config_get_int(setup->config, "policy.learn.microbatch") > 0;
    const char *key = asked ? "policy.learn.microbatch" : "policy.learn.batch_size";
    if (hd_net_count_state(args->net) == 0)
        return HD_OK;
    args->steps = sequences.steps;
    if (args->micro % sequences.steps == 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, hd_config_locate(setup->config, key, setup->location),
                             "%s: expected whole sequences of %lld steps "
                             "(policy.collect.unroll_len), found %lld samples",
                             key, (long long)sequences.steps, (long long)args->micro);
}

static int loss_grad_prepare(const struct hd_setup *setup, void **args_p)
{
    struct hd_loss_grad *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->loss = hd_loss_find(setup);
    args->net = hd_params_get_net(setup->specs[HD_LOSS_POLICY]);
    HD_TRY(check_ports(setup, args->loss));
    HD_TRY(hd_policy_check_loss(setup, args->loss->name));
    if (hd_policy_find(args->loss->name)) {
        HD_TRY(hd_policy_net_check(setup, args->net));
        HD_TRY(hd_freeze_read(setup, args->net, &args->learns));
    }
    HD_TRY(check_priority(setup, args->loss));
    HD_TRY(check_microbatch(setup, args));
    HD_TRY(check_sequences(setup, args));
    args->backward_stages = hd_net_count_stages(args->net);
    args->buckets = setup->specs[HD_LOSS_GRAD]->buckets;
    args->levels = hd_net_count_levels(args->net);
    args->skips = skips(setup);
    HD_TRY(check_norm(setup, args));
    HD_TRY(hd_loss_grad_check_gpu(setup, args));
    HD_TRY(hd_learning_rate_prepare(setup, ports, HD_LOSS_RATE, HD_LOSS_SCHEDULE,
                                    args->loss->rate_key ? args->loss->rate_key : "learning_rate",
                                    &args->rate));
    HD_TRY(hd_net_prepare(args->net, hd_loss_grad_count_forward_rows(args), args->micro));
    if (args->loss->target)
        HD_TRY(hd_net_prepare(args->net, args->micro, 0));
    return args->loss->prepare(setup, args->net, args->micro, &args->loss_args);
}

static void loss_grad_release(void *memory)
{
    struct hd_loss_grad *args = memory;
    if (args) {
        hd_free(args->loss_args);
        hd_free(args->learns);
    }
    hd_free(args);
}

static int64_t loss_grad_scratch(const void *memory)
{
    const struct hd_loss_grad *args = memory;
    return args->loss->scratch_bytes ? args->loss->scratch_bytes(args->loss_args) : 0;
}

static enum hd_access_scope get_scope(const void *arg, int port)
{
    const struct hd_loss_grad *args = arg;
    const bool throughout = port == HD_LOSS_POLICY || port == HD_LOSS_BATCH;
    return args->levels > 0 && throughout ? HD_SCOPE_ALL : ports[port].scope;
}

/* Returns whether one of the last losses was skipped, so that nothing more is said. */
static bool has_skipped(const struct hd_loss_grad *args, const struct hd_view *stats)
{
    return stats->data &&
           stats->spec->type->field(stats->spec, stats->data, 1 + args->loss->n_fields) > 0;
}

static int loss_grad_finish(struct hd_context *context, const struct hd_view *views,
                            const void *arg)
{
    const struct hd_loss_grad *args = arg;
    const struct hd_view *stats = &views[HD_LOSS_STATS];
    double values[HD_LOSS_FIELDS_MAX], weights[HD_LOSS_FIELDS_MAX];
    if (args->levels > 0)
        hd_loss_grad_update_running_stats(args, &views[HD_LOSS_BATCH_NORM_STATS],
                                          context->work_buffers[0]);
    double loss = args->loss->sum(args->loss_args, context->headers, args->items, values, weights);
    if (args->skips && !isfinite(loss) && !has_skipped(args, stats))
        hd_log(HD_LOG_WARN,
               "the loss of update %lld is not a number (shard %lld): it is skipped, as are those "
               "that follow it; skipped_avg in the logs counts them",
               (long long)context->update + 1, (long long)context->shard);
    if (args->skips && stats->data)
        hd_scalars_push(stats->spec, stats->data, 1 + args->loss->n_fields, !isfinite(loss), 1);
    if (args->skips && !isfinite(loss))
        return HD_OK;
    if (stats->data)
        hd_scalars_push(stats->spec, stats->data, 0, hd_scheduled_get(&args->rate, views),
                        weights[0]);
    for (int i = 0; stats->data && i < args->loss->n_fields; i++)
        hd_scalars_push(stats->spec, stats->data, i + 1, values[i], weights[i]);
    if (!isfinite(loss))
        return hd_body_fail(context, "the loss of update %lld is not a number (shard %lld)",
                            (long long)context->update + 1, (long long)context->shard);
    return HD_OK;
}

const struct hd_verb hd_verb_loss_grad = {
    .name = "loss_grad",
    .stream_id = 0x8d40da7acaa4ad77,
    .ports = ports,
    .options = options,
    .declare = loss_grad_declare,
    .prepare = loss_grad_prepare,
    .release = loss_grad_release,
    .scratch = loss_grad_scratch,
    .body = hd_loss_grad_run_stage,
    .get_subtasks = hd_loss_grad_get_subtasks,
    .stage_range = hd_loss_grad_get_stage_range,
    .finish = loss_grad_finish,
    .get_scope = get_scope,
    .count_cross_shard_sums = hd_loss_grad_count_cross_shard_sums,
    .gpu = HD_ON_GPU(hd_loss_grad_on_gpu),
    .help = "computes the gradient of the loss over a batch, summed over its samples",
};
