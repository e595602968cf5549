/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `adam`: makes one step of Adam on a bucket, by the mean gradient of all shards or by a
 * shard's own. With policy.learn.grad_clip_type clip_norm a gradient longer than grad_clip_value is
 * scaled down to that length, as torch.nn.utils.clip_grad_norm_ does. A gradient whose count is NaN
 * (loss_grad) is counted and changes nothing else; runtime.nan_skips_max of them in a row end the
 * run. The option `learning_rate` is for graphs of several nets. */
#include "kernels/learn/adam.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/learn/learning_rate.h"
#include "tasks/types/learn/adam_state.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"

#include <math.h>
#include <string.h>

enum { MEAN_GRAD, POLICY, OPTIMIZER, NORM, RATE, SCHEDULE };

static const struct hd_port ports[] = {
    [MEAN_GRAD] = {"mean_grad", "grad", .mode = HD_READ, .gpu_order = true, .divides = true},
    [POLICY] = {"policy", "params", .mode = HD_UPDATE},
    [OPTIMIZER] = {"optimizer", "adam_state", .mode = HD_UPDATE},
    [NORM] = {"grad_norm", "scalars", .mode = HD_READ, .optional = true},
    [RATE] = {"learning_rate", "scalars", .mode = HD_READ, .none = true, .optional = true},
    [SCHEDULE] = {"schedule", "scalars", .mode = HD_READ, .none = true, .optional = true},
    {0},
};

static const struct hd_option options[] = {{"learning_rate", NULL, false}, {0}};

struct args {
    struct hd_adam adam;
    double longest; /* norm to which gradients are clipped; infinite: not clipped */
    int norm;       /* index of the field grad_norm_avg at port NORM */
    struct hd_scheduled rate;
    bool skips;        /* runtime.on_nan is skip: a count may be NaN */
    int64_t skips_max; /* of these in a row */
};

/* Reports that the run file asks for something that the graph does not compute. */
static int refuse(const struct hd_setup *setup, const char *key, const char *value,
                  const char *verb)
{
    return hd_diag_add_error(setup->diag, setup->location,
                             "%s %s needs the result of a step %s under `reads`", key, value, verb);
}

static int adam_prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_config *config = setup->config;
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    HD_TRY(hd_params_check_made_of(setup, setup->specs[MEAN_GRAD], setup->specs[POLICY]));
    HD_TRY(hd_params_check_made_of(setup, setup->specs[OPTIMIZER], setup->specs[POLICY]));
    HD_TRY(hd_learning_rate_prepare(setup, ports, RATE, SCHEDULE, "learning_rate", &args->rate));
    args->adam = hd_adam_make(args->rate.constant);
    args->adam.epsilon = hd_config_get_real(config, "policy.learn.adam_eps");
    args->longest = INFINITY;
    args->skips = strcmp(hd_config_get_text(config, "runtime.on_nan"), "skip") == 0;
    if (args->skips)
        args->skips_max = hd_config_get_int(config, "runtime.nan_skips_max");
    if (strcmp(hd_config_get_text(config, "policy.learn.grad_clip_type"), "clip_norm") == 0)
        args->longest = hd_config_get_real(config, "policy.learn.grad_clip_value");
    HD_TRY(hd_scalars_find(setup, ports, NORM, "grad_norm_avg", &args->norm));
    if (isfinite(args->longest) && !setup->specs[NORM])
        return refuse(setup, "policy.learn.grad_clip_type", "clip_norm", "grad_norm");
    if (strcmp(hd_config_get_text(config, "policy.learn.lr_scheduler.type"), "kl") == 0 &&
        !setup->specs[RATE])
        return refuse(setup, "policy.learn.lr_scheduler.type", "kl", "adapt_lr");
    return HD_OK;
}

static double field(const struct hd_view *view, int index)
{
    return view->spec->type->field(view->spec, view->data, index);
}

static float clip(const struct args *args, const struct hd_view *norm)
{
    if (isinf(args->longest))
        return 1;
    return hd_adam_get_scale(args->longest, field(norm, args->norm));
}

static struct hd_adam adam_now(const struct args *args, const struct hd_view *views)
{
    struct hd_adam adam = args->adam;
    adam.learning_rate = hd_scheduled_get(&args->rate, views);
    return adam;
}

static int skip(struct hd_context *context, const struct args *args, bool first,
                struct hd_adam_counts *counts)
{
    counts->skipped += first;
    counts->in_a_row += first;
    if (counts->in_a_row < args->skips_max)
        return HD_OK;
    return hd_body_fail(context,
                        "the losses of the last %lld updates were not numbers "
                        "(runtime.nan_skips_max); the last one is %lld",
                        (long long)counts->in_a_row, (long long)context->update + 1);
}

/* Updates whole blocks one after another, each with its shadow weights while it is in cache. */
static int update(struct hd_context *context, const struct hd_view *views, const struct args *args,
                  bool first, int64_t lo, int64_t hi, const float *sum, float count)
{
    struct hd_adam_state moments =
        hd_adam_state_lay_out(views[OPTIMIZER].spec, views[OPTIMIZER].data);
    struct hd_adam_counts *counts = &moments.counts[views[POLICY].bucket];
    if (isnan(count))
        return skip(context, args, first, counts);
    const struct hd_net *net = hd_params_get_net(views[POLICY].spec);
    const struct hd_adam adam = adam_now(args, views);
    const float scale = clip(args, &views[NORM]);
    float *params = views[POLICY].data;
    counts->updates += first;
    counts->in_a_row = 0;
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        hd_adam_step(&adam, counts->updates, end - at, sum + (at - lo), count, scale,
                     moments.first + at, moments.second + at, params + at);
        hd_net_refresh(net, params, at, end);
    }
    return HD_OK;
}

static int64_t adam_scratch(const void *args)
{
    (void)args;
    return HD_BLOCK * (int64_t)sizeof(float);
}

static int adam_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct hd_view *grad = &views[MEAN_GRAD];
    int64_t bucket_lo, bucket_hi;
    hd_spec_get_bucket(views[POLICY].spec, views[POLICY].bucket, &bucket_lo, &bucket_hi);
    for (int64_t lo = bucket_lo; lo < bucket_hi; lo += HD_BLOCK) {
        const int64_t hi = bucket_hi - lo < HD_BLOCK ? bucket_hi : lo + HD_BLOCK;
        float count;
        const float *sum =
            hd_grad_sum(grad->spec, grad->data, grad->bucket, lo, hi, context->scratch, &count);
        HD_TRY(update(context, views, args, lo == bucket_lo, lo, hi, sum, count));
    }
    return HD_OK;
}

static int update_slice(struct hd_context *context, const struct hd_view *views, const void *args,
                        int64_t lo, int64_t hi, const float *sum, float count)
{
    return update(context, views, args, !context->again, lo, hi, sum,
                  count > 0 || isnan(count) ? count : 1);
}

#if HD_CUDA
static bool adam_supports_gpu(const void *args)
{
    return !((const struct args *)args)->skips;
}

/* Returns where the GPU finds a field, in memory of a pinned type; NULL: nowhere. */
static const struct hd_scalar *find_entry(const struct hd_view *view, int index)
{
    return view->data ? hd_scalars_get_slot(view->spec, view->data, index).entry : NULL;
}

static int adam_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                            const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *policy = &views[POLICY];
    const struct hd_adam_inputs inputs = {
        .norm = isinf(args->longest) ? NULL : find_entry(&views[NORM], args->norm),
        .longest = args->longest,
        .rate = hd_scheduled_find_entry(&args->rate, views)};
    const struct hd_partials grad =
        hd_grad_get_partials(views[MEAN_GRAD].spec, views[MEAN_GRAD].data, views[MEAN_GRAD].bucket);
    const struct hd_adam_state moments =
        hd_adam_state_lay_out(views[OPTIMIZER].spec, views[OPTIMIZER].data);
    struct hd_tiles tiles;
    HD_TRY(hd_net_get_tiles(hd_params_get_net(policy->spec), policy->data, &tiles));
    return hd_adam_step_cuda(&args->adam, &grad, views[MEAN_GRAD].spec->gpu_order, &tiles,
                             context->lo, context->hi - context->lo, &inputs,
                             &moments.counts[policy->bucket].updates, context->scratch,
                             moments.first, moments.second, context->stream);
}

static const struct hd_gpu_verb on_gpu = {.body = adam_body_on_gpu,
                                          .supports = adam_supports_gpu,
                                          .scratch = adam_scratch,
                                          .graph_capturable = true};
#endif

const struct hd_verb hd_verb_adam = {
    .name = "adam",
    .stream_id = 0x0474f2769ea8e730,
    .ports = ports,
    .options = options,
    .by_bucket = true,
    .prepare = adam_prepare,
    .scratch = adam_scratch,
    .body = adam_body,
    .update_slice = update_slice,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "makes one step of Adam by the mean gradient, or by each shard's own",
};
