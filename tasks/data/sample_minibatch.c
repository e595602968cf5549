/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `sample_minibatch`: takes the next minibatch of the permutation (docs/di-engine.md 3.5).
 * With policy.learn.adv_norm the advantages are standardised over the shard's minibatch. */
#include "kernels/learn/losses/ppo_loss.h"
#include "kernels/rollout/minibatch.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/data/permutation.h"
#include "tasks/types/learn/advantages.h"

#include <string.h>

enum { TRAJECTORIES, ADVANTAGES, PERMUTATION, BATCH };

static const struct hd_port ports[] = {
    [TRAJECTORIES] = {"trajectories", "trajectories", .mode = HD_READ},
    [ADVANTAGES] = {"advantages", "advantages", .mode = HD_READ},
    [PERMUTATION] = {"permutation", "permutation", .mode = HD_UPDATE},
    [BATCH] = {"batch", "minibatch", .mode = HD_WRITE},
    {0},
};

struct args {
    bool standardise;
    bool recurrent; /* rows come with states, which GPUs do not copy */
};

/* One advantage, standardised, is 0: it teaches nothing. */
static int check_split(const struct hd_setup *setup, const struct hd_minibatch_split *split)
{
    if (split->rows > 1)
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, hd_config_locate(setup->config, "policy.learn.batch_size", setup->location),
        "policy.learn.batch_size: a minibatch would have 1 of %lld samples, whose advantage is 0 "
        "once it is standardised (adv_norm); batches of 2 to policy.collect.n_sample samples use "
        "all of them, and larger ones with minibatch_tail: short",
        (long long)split->samples);
}

static int sample_minibatch_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    args->standardise = hd_config_get_bool(setup->config, "policy.learn.adv_norm");
    args->recurrent = hd_sequences_read(setup->config).state > 0;
    *args_p = args;
    const struct hd_minibatch_split split = hd_minibatch_split_read(setup->config);
    return args->standardise ? check_split(setup, &split) : HD_OK;
}

/* Says with which state the net meets a row, which is step `step` of its group. */
static void fill_state(const struct hd_trajectories_shape *shape, const struct hd_trajectories *t,
                       int64_t step, struct hd_minibatch *batch, int64_t row)
{
    const struct hd_sequences *sequences = &shape->sequences;
    const int64_t steps = sequences->steps, env = step / shape->steps;
    const bool first = row % steps == 0;
    batch->begins[row] = !first && hd_trajectories_begins(t, step);
    if (first)
        memcpy(batch->state + row / steps * sequences->state,
               hd_trajectories_get_state(shape, t, env, step % shape->steps / steps),
               (size_t)sequences->state * sizeof *batch->state);
}

/* Copies sample `sample` of the shard to row `row` of the minibatch. */
static void fill_row(const struct hd_view *views, struct hd_minibatch *batch, int64_t row,
                     int64_t sample)
{
    const struct hd_view *from = &views[TRAJECTORIES];
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(from->spec);
    const struct hd_trajectories t =
        hd_trajectories_get(from->spec, from->data, sample / shape->samples);
    const struct hd_advantages advantages =
        hd_advantages_get(views[ADVANTAGES].spec, views[ADVANTAGES].data);
    const int64_t step = t.row[sample % shape->samples], logits = shape->logits;
    const int64_t dims = shape->actions.dims;
    hd_trajectories_copy_obs(shape, &t, step, 0, batch->obs + row * shape->obs.obs_bytes);
    memcpy(batch->logit + row * logits, t.logit + step * logits, (size_t)logits * sizeof *t.logit);
    memcpy(batch->action + row * dims, t.action + step * dims, (size_t)dims * sizeof *t.action);
    batch->advantage[row] = advantages.advantage[sample];
    batch->target[row] = advantages.target[sample];
    batch->value[row] = advantages.value[sample];
    if (shape->sequences.state > 0)
        fill_state(shape, &t, step, batch, row);
}

/* Takes the next minibatch, which is samples [*lo_p, *hi_p) of the permutation. */
static int take_minibatch(struct hd_context *context, const struct hd_view *views, int64_t *lo_p,
                          int64_t *hi_p)
{
    const struct hd_minibatch_split *split = hd_permutation_get_split(views[PERMUTATION].spec);
    struct hd_permutation *permutation = views[PERMUTATION].data;
    if (permutation->taken >= split->count)
        return hd_body_fail(context, "all %lld minibatches of '%s' are used up: shuffle it first",
                            (long long)split->count, views[PERMUTATION].spec->name);
    hd_minibatch_split_get_range(split, permutation->taken++, lo_p, hi_p);
    return HD_OK;
}

static int sample_minibatch_body(struct hd_context *context, const struct hd_view *views,
                                 const void *memory)
{
    const struct args *args = memory;
    const struct hd_minibatch_split *split = hd_permutation_get_split(views[PERMUTATION].spec);
    const struct hd_permutation *permutation = views[PERMUTATION].data;
    struct hd_minibatch batch = hd_minibatch_get(views[BATCH].spec, views[BATCH].data);
    int64_t lo, hi;
    HD_TRY(take_minibatch(context, views, &lo, &hi));
    *batch.used = hi - lo;
    for (int64_t i = 0; i < split->rows; i++)
        fill_row(views, &batch, i, permutation->sample[i < hi - lo ? lo + i : lo]);
    if (args->standardise)
        hd_standardise(batch.advantage, *batch.used);
    return HD_OK;
}

#if HD_CUDA
static bool sample_minibatch_supports_gpu(const void *memory)
{
    return !((const struct args *)memory)->recurrent;
}

/* The permutation stays on the host, so it is known which minibatch is next when the work is
 * launched. */
static int set_inputs(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    (void)memory;
    struct hd_minibatch_range *range = context->inputs;
    return take_minibatch(context, views, &range->lo, &range->hi);
}

static int sample_minibatch_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                        const void *memory)
{
    const struct args *args = memory;
    const struct hd_minibatch_split *split = hd_permutation_get_split(views[PERMUTATION].spec);
    const struct hd_minibatch batch = hd_minibatch_get(views[BATCH].spec, views[BATCH].data);
    const struct hd_advantages advantages =
        hd_advantages_get(views[ADVANTAGES].spec, views[ADVANTAGES].data);
    const struct hd_permutation *permutation = views[PERMUTATION].data;
    const struct hd_minibatch_source gather = {
        .from = hd_trajectories_get_steps(views[TRAJECTORIES].spec, views[TRAJECTORIES].data),
        .advantage = advantages.advantage,
        .target = advantages.target,
        .value = advantages.value,
        .rows = split->rows,
        .sample = permutation->sample,
        .range = context->inputs,
    };
    const struct hd_minibatch_arrays to = {batch.used,      batch.obs,    batch.action, batch.logit,
                                           batch.advantage, batch.target, batch.value};
    HD_TRY(hd_minibatch_gather_cuda(&gather, &to, context->stream));
    return args->standardise ? hd_standardise_cuda(batch.advantage, batch.used, context->stream)
                             : HD_OK;
}

static const struct hd_gpu_verb on_gpu = {.body = sample_minibatch_body_on_gpu,
                                          .supports = sample_minibatch_supports_gpu,
                                          .graph_capturable = true,
                                          .set_inputs = set_inputs,
                                          .input_bytes = sizeof(struct hd_minibatch_range)};
#endif

const struct hd_verb hd_verb_sample_minibatch = {
    .name = "sample_minibatch",
    .stream_id = 0x637b33a41b1e4b2d,
    .ports = ports,
    .prepare = sample_minibatch_prepare,
    .body = sample_minibatch_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "takes the next minibatch of the permutation",
};
