/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad: the gradient of a loss over a shard's batch, as a sum over samples. An item is a
 * microbatch, a partial of the tree that all shards' samples are summed in. Its first stage goes
 * forward as far as the loss's derivative by the net's outputs, the others back through the net;
 * nets of one backward stage do all in one. Nets with batch norm stop at each norm in either
 * direction, for what all items of all shards add up to: with L levels of norms, stages 0 … L go
 * forward and L … 2 L back, and `finish` hands the batch's moments to the running statistics.
 *
 * A microbatch whose loss is not finite ends the run, or (runtime.on_nan: skip) has a count that is
 * no number: so has then every sum with it, on every rank, by which adam partials parameters alone.
 */
#include "kernels/learn/samples.h"
#include "kernels/net/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/arena.h"
#include "tasks/builtin.h"
#include "tasks/learn/learning_rate.h"
#include "tasks/learn/losses/loss.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"

#include <math.h>
#include <string.h>

static const struct hd_port ports[] = {
    [HD_LOSS_POLICY] = {.name = "policy",
                        .type = "params",
                        .mode = HD_READ,
                        .scope = HD_SCOPE_STAGE_RANGE},
    [HD_LOSS_TARGET] = {.name = "target", .type = "params", .mode = HD_READ, .optional = true},
    [HD_LOSS_BATCH] = {.name = "batch", .mode = HD_READ},
    [HD_LOSS_STATS] = {.name = "stats",
                       .type = "scalars",
                       .mode = HD_UPDATE,
                       .optional = true,
                       .scope = HD_SCOPE_FINISH},
    [HD_LOSS_GRAD] = {.name = "grad",
                      .type = "grad",
                      .mode = HD_WRITE,
                      .scope = HD_SCOPE_STAGE_RANGE},
    [HD_LOSS_NORM] = {.name = "obs_norm", .type = "moments", .mode = HD_READ, .optional = true},
    [HD_LOSS_BATCH_NORM_STATS] = {.name = "batch_norm_stats",
                                  .type = "batch_norm_stats",
                                  .mode = HD_UPDATE,
                                  .optional = true,
                                  .scope = HD_SCOPE_FINISH},
    [HD_LOSS_RATE] = {.name = "learning_rate",
                      .type = "scalars",
                      .mode = HD_READ,
                      .optional = true,
                      .scope = HD_SCOPE_FINISH},
    {0},
};

static const struct hd_option options[] = {{"loss", "bc|dqn|ppo", true}, {0}};

enum { MOST_FIELDS = 24 };

static const struct hd_loss *const losses[] = {&hd_loss_dqn, &hd_loss_bc, &hd_loss_ppo};

static const struct hd_loss *find_loss(const struct hd_setup *setup)
{
    const char *name = hd_setup_get_option(setup, "loss");
    for (int i = 0; i < (int)(sizeof losses / sizeof *losses); i++)
        if (name && strcmp(losses[i]->name, name) == 0)
            return losses[i];
    return losses[0]; /* the option's choices are these: it is missing in tests only */
}

static bool skips(const struct hd_setup *setup)
{
    return strcmp(hd_config_get_text(setup->config, "runtime.on_nan"), "skip") == 0;
}

static int declare(const struct hd_setup *setup)
{
    const struct hd_loss *loss = find_loss(setup);
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[HD_LOSS_NORM]));
    struct hd_scalar_field fields[MOST_FIELDS] = {{"cur_lr_avg", HD_MEAN, HD_LOSS_WINDOW}};
    int n = 1 + loss->n_fields;
    memcpy(fields + 1, loss->fields, (size_t)loss->n_fields * sizeof *fields);
    if (skips(setup))
        fields[n++] = (struct hd_scalar_field){"skipped_avg", HD_MEAN, HD_LOSS_WINDOW};
    return hd_scalars_declare(setup, setup->specs[HD_LOSS_STATS], "learner", fields, n);
}

struct args {
    const struct hd_loss *loss;
    void *loss_args;
    const struct hd_net *net;
    int64_t batch, micro, items;
    int backward_stages;
    int buckets; /* of the gradient */
    int levels;  /* of batch norms; 0: the net has none */
    bool skips;  /* updates whose loss is not finite */
    struct hd_learning_rate rate;
};

/* A microbatch's work memory. */
struct work {
    void *header; /* the loss's, which starts with how many of the rows count */
    void *loss_work;
    float *out, *dout; /* [micro][outputs] */
    char *forward, *backward;
};

static int64_t forward_rows(const struct args *args)
{
    return args->micro * (int64_t)args->loss->passes;
}

/* Bytes of the passes' memory. */
struct pass_bytes {
    int64_t forward, backward;
};

static struct pass_bytes bytes_on_cpu(const struct args *args)
{
    if (args->levels > 0)
        return (struct pass_bytes){hd_net_get_training_bytes(args->net, args->micro), 0};
    return (struct pass_bytes){hd_net_get_forward_bytes(args->net, forward_rows(args)),
                               hd_net_get_backward_bytes(args->net, args->micro)};
}

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct args *args, struct pass_bytes bytes, void *memory, void *header,
                       struct work *work)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t loss_work =
        args->loss->loss_work_bytes ? args->loss->loss_work_bytes(args->net, args->micro) : 0;
    const int64_t outputs = args->micro * hd_net_count_outputs(args->net);
    work->header = header;
    work->loss_work = hd_arena_take(&arena, loss_work, 1);
    work->out = hd_arena_take(&arena, args->loss->obs ? outputs : 0, sizeof *work->out);
    work->dout = hd_arena_take(&arena, outputs, sizeof *work->dout);
    work->forward = hd_arena_take(&arena, bytes.forward, 1);
    work->backward = hd_arena_take(&arena, bytes.backward, 1);
    return arena.used;
}

/* -- The task object ------------------------------------------------------------------------------
 */

static int check_ports(const struct hd_setup *setup, const struct hd_loss *loss)
{
    const struct hd_spec *batch = setup->specs[HD_LOSS_BATCH];
    if (strcmp(batch->type->name, loss->batch) != 0)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "loss %s takes a batch of type %s, but '%s' is of type %s",
                                 loss->name, loss->batch, batch->name, batch->type->name);
    if (loss->target != (setup->specs[HD_LOSS_TARGET] != NULL))
        return hd_diag_add_error(setup->diag, setup->location, "loss %s %s (port 'target')",
                                 loss->name,
                                 loss->target ? "needs a second value of type params under `reads`"
                                              : "has no use for a target net");
    return HD_OK;
}

static int check_norm(const struct hd_setup *setup, const struct args *args)
{
    const struct hd_node *node = hd_config_get_node(setup->config, "policy.model.norm");
    if (args->levels > 0 && !args->loss->obs)
        return hd_diag_add_error(
            setup->diag, node ? node->location : setup->location,
            "norm: loss %s takes a batch through its nets more than once, each "
            "time of other statistics; it needs nets without norms",
            args->loss->name);
    if (args->levels > 0 && args->skips)
        return hd_diag_add_error(
            setup->diag, node ? node->location : setup->location,
            "norm: with runtime.on_nan: skip nets cannot have norms, whose running "
            "statistics would take in what is skipped");
    return hd_batch_norm_stats_check(setup, setup->specs[HD_LOSS_POLICY], HD_LOSS_BATCH_NORM_STATS);
}

static int check_microbatch(const struct hd_setup *setup, struct args *args)
{
    const struct hd_learn_shape learn = hd_learn_shape_read(setup->config);
    const bool asked = hd_config_get_int(setup->config, "policy.learn.microbatch") > 0;
    const char *key = asked ? "policy.learn.microbatch" : "policy.learn.batch_size";
    const struct hd_node *node = hd_config_get_node(setup->config, key);
    args->batch = learn.rows;
    args->micro = learn.micro;
    args->items = learn.partials;
    if (learn.rows % learn.micro == 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, node ? node->location : setup->location,
                             "%s: expected a divisor of the batch's %lld rows, found %lld%s", key,
                             (long long)learn.rows, (long long)learn.micro,
                             asked ? "" : "; policy.learn.microbatch may be one instead");
}

static int prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->loss = find_loss(setup);
    args->net = hd_params_get_net(setup->specs[HD_LOSS_POLICY]);
    HD_TRY(check_ports(setup, args->loss));
    HD_TRY(check_microbatch(setup, args));
    args->backward_stages = hd_net_count_stages(args->net);
    args->buckets = setup->specs[HD_LOSS_GRAD]->buckets;
    args->levels = hd_net_count_levels(args->net);
    args->skips = skips(setup);
    HD_TRY(check_norm(setup, args));
    HD_TRY(hd_learning_rate_prepare(setup, ports, HD_LOSS_RATE, &args->rate));
    HD_TRY(hd_net_prepare(args->net, forward_rows(args), args->micro));
    return args->loss->prepare(setup, args->net, args->micro, &args->loss_args);
}

static void release(void *memory)
{
    struct args *args = memory;
    if (args)
        hd_free(args->loss_args);
    hd_free(args);
}

/* -- Subtasks
 * ---------------------------------------------------------------------------------------
 */

static void get_subtasks(const void *arg, struct hd_subtasks *subtasks_p)
{
    const struct args *args = arg;
    struct work unused;
    *subtasks_p = (struct hd_subtasks){
        .items = args->items,
        .stages = args->levels > 0             ? 2 * args->levels + 1
                  : args->backward_stages == 1 ? 1
                                               : 1 + args->backward_stages,
        .work_bytes = lay_out(args, bytes_on_cpu(args), NULL, NULL, &unused),
        .header_bytes = args->loss->header_bytes,
        .finish_last = args->levels > 0,
    };
}

static enum hd_access_scope get_scope(const void *arg, int port)
{
    const struct args *args = arg;
    const bool throughout = port == HD_LOSS_POLICY || port == HD_LOSS_BATCH;
    return args->levels > 0 && throughout ? HD_SCOPE_ALL : ports[port].scope;
}

static int64_t count_cross_shard_sums(const void *arg, int stage)
{
    return hd_net_count_training_sums(((const struct args *)arg)->net, stage);
}

static void stage_range(const void *arg, int stage, int64_t *lo_p, int64_t *hi_p)
{
    const struct args *args = arg;
    *lo_p = *hi_p = 0;
    if (args->levels > 0 ? stage == 2 * args->levels : args->backward_stages == 1)
        *hi_p = hd_net_count_params(args->net);
    else if (stage > 0 && args->levels == 0)
        hd_net_get_stage_range(args->net, stage - 1, lo_p, hi_p);
}

static struct hd_loss_pass pass_of(const struct args *args, const struct hd_view *views,
                                   int64_t item, const struct work *work)
{
    return (struct hd_loss_pass){
        .net = args->net,
        .views = views,
        .batch = args->batch,
        .first = item * args->micro,
        .rows = args->micro,
        .forward = work->forward,
        .loss_work = work->loss_work,
        .header = work->header,
        .out = work->out,
        .dout = work->dout,
    };
}

/* How many rows count stands first in the header. */
static void count_rows(const struct args *args, const struct hd_loss_pass *pass)
{
    const int64_t used = *args->loss->used(&pass->views[HD_LOSS_BATCH]);
    *(int64_t *)pass->header = hd_samples_count(used, pass->first, pass->rows);
}

static void go_forward(const struct args *args, const struct hd_view *views, int64_t item,
                       const struct work *work)
{
    const struct hd_loss_pass pass = pass_of(args, views, item, work);
    struct hd_obs_norm norm;
    count_rows(args, &pass);
    if (args->loss->obs) {
        const void *obs = args->loss->obs(&pass);
        hd_net_forward(args->net, views[HD_LOSS_POLICY].data,
                       hd_moments_get_obs_norm(&views[HD_LOSS_NORM], &norm), obs, args->micro,
                       work->forward, work->out);
    }
    args->loss->differentiate(args->loss_args, &pass);
}

/* The counts of all buckets that a range touches. */
static void count_samples(const struct hd_view *grad, int64_t partial, float rows, int64_t lo,
                          int64_t hi)
{
    float *counts = hd_grad_get_counts(grad->spec, grad->data, partial);
    for (int bucket = 0; bucket < grad->spec->buckets; bucket++) {
        int64_t bucket_lo, bucket_hi;
        hd_spec_get_bucket(grad->spec, bucket, &bucket_lo, &bucket_hi);
        if (bucket_lo < hi && bucket_hi > lo)
            counts[bucket] = rows;
    }
}

/* A microbatch's loss. */
static bool is_finite(const struct args *args, void *header)
{
    double values[MOST_FIELDS], weights[MOST_FIELDS];
    return isfinite(args->loss->sum(args->loss_args, &header, 1, values, weights));
}

/* What a microbatch counts for in the mean. */
static float count_of(const struct args *args, void *header)
{
    if (args->skips && !is_finite(args, header))
        return NAN;
    return (float)*(const int64_t *)header;
}

static void go_backward(const struct args *args, const struct hd_view *views, int64_t item,
                        int stage, const struct work *work)
{
    const struct hd_view *grad = &views[HD_LOSS_GRAD];
    int64_t lo, hi;
    hd_net_get_stage_range(args->net, stage, &lo, &hi);
    hd_net_backward(args->net, views[HD_LOSS_POLICY].data, args->micro, forward_rows(args),
                    work->forward, work->dout, work->backward, stage,
                    hd_grad_get_partial(grad->spec, grad->data, item));
    count_samples(grad, item, count_of(args, work->header), lo, hi);
}

/* A stage of a net with batch norm; the one in the middle goes both ways. */
static void go_through_norms(const struct hd_context *context, const struct hd_view *views,
                             const struct args *args, const struct work *work)
{
    const struct hd_view *grad = &views[HD_LOSS_GRAD];
    const int stage = context->stage, levels = args->levels;
    const struct hd_loss_pass pass = pass_of(args, views, context->item, work);
    struct hd_obs_norm norm;
    count_rows(args, &pass);
    const struct hd_training_pass training = {
        .params = views[HD_LOSS_POLICY].data,
        .norm = hd_moments_get_obs_norm(&views[HD_LOSS_NORM], &norm),
        .obs = args->loss->obs(&pass),
        .batch = args->micro,
        .used = hd_loss_get_used(&pass),
        .work = work->forward,
        .q = work->out,
        .dq = work->dout,
        .grad =
            stage == 2 * levels ? hd_grad_get_partial(grad->spec, grad->data, context->item) : NULL,
    };
    if (stage <= levels)
        hd_net_training_forward(args->net, &training, stage, context->cross_shard_sums,
                                context->partial_sums);
    if (stage == levels)
        args->loss->differentiate(args->loss_args, &pass);
    if (stage >= levels)
        hd_net_training_backward(args->net, &training, stage - levels, context->cross_shard_sums,
                                 context->partial_sums);
    if (stage == 2 * levels)
        count_samples(grad, context->item, (float)hd_loss_get_used(&pass), 0,
                      hd_net_count_params(args->net));
}

static int body(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    struct work work;
    lay_out(args, bytes_on_cpu(args), context->work, context->header, &work);
    if (args->levels > 0) {
        go_through_norms(context, views, args, &work);
        return HD_OK;
    }
    if (context->stage == 0) {
        go_forward(args, views, context->item, &work);
        if (context->keep && !is_finite(args, work.header))
            context->keep(context, views, "the loss is not a number");
    }
    if (args->backward_stages == 1 || context->stage > 0)
        go_backward(args, views, context->item, args->backward_stages == 1 ? 0 : context->stage - 1,
                    &work);
    return HD_OK;
}

/* Every shard's copy takes in the same. */
static void update_running_stats(const struct args *args, const struct hd_view *state, void *memory)
{
    struct work work;
    lay_out(args, bytes_on_cpu(args), memory, NULL, &work);
    const struct hd_training_pass training = {.batch = args->micro, .work = work.forward};
    *hd_batch_norm_stats_get_batches(state->data) +=
        hd_net_update_running(args->net, &training, hd_batch_norm_stats_get_running(state->data));
}

static int finish(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    const struct hd_view *stats = &views[HD_LOSS_STATS];
    double values[MOST_FIELDS], weights[MOST_FIELDS];
    if (args->levels > 0)
        update_running_stats(args, &views[HD_LOSS_BATCH_NORM_STATS], context->work_buffers[0]);
    double loss = args->loss->sum(args->loss_args, context->headers, args->items, values, weights);
    if (args->skips && stats->data)
        hd_scalars_push(stats->spec, stats->data, 1 + args->loss->n_fields, !isfinite(loss), 1);
    if (args->skips && !isfinite(loss)) {
        hd_log(HD_LOG_WARN, "the loss of update %lld is not a number (shard %lld): it is skipped",
               (long long)context->update + 1, (long long)context->shard);
        return HD_OK;
    }
    if (stats->data)
        hd_scalars_push(stats->spec, stats->data, 0,
                        hd_learning_rate_get(&args->rate, &views[HD_LOSS_RATE]), weights[0]);
    for (int i = 0; stats->data && i < args->loss->n_fields; i++)
        hd_scalars_push(stats->spec, stats->data, i + 1, values[i], weights[i]);
    if (!isfinite(loss))
        return hd_body_fail(context, "the loss of update %lld is not a number (shard %lld)",
                            (long long)context->update + 1, (long long)context->shard);
    return HD_OK;
}

#if HD_CUDA
/* -- On a GPU -------------------------------------------------------------------------------------
 * A gradient in one bucket has nobody who waits for an earlier stage: then there is one stage. */

static bool in_one_stage(const struct args *args)
{
    return args->buckets == 1 || args->backward_stages == 1;
}

static bool supports_gpu(const void *arg)
{
    const struct args *args = arg;
    return args->levels == 0 && !args->skips;
}

static struct pass_bytes bytes_on_gpu(const struct args *args)
{
    return (struct pass_bytes){hd_net_get_forward_cuda_bytes(args->net, forward_rows(args)),
                               hd_net_get_backward_cuda_bytes(args->net, args->micro)};
}

static void get_subtasks_on_gpu(const void *arg, struct hd_subtasks *subtasks_p)
{
    const struct args *args = arg;
    struct work unused;
    *subtasks_p = (struct hd_subtasks){
        .items = args->items,
        .stages = in_one_stage(args) ? 1 : 1 + args->backward_stages,
        .work_bytes = lay_out(args, bytes_on_gpu(args), NULL, NULL, &unused),
        .header_bytes = args->loss->header_bytes,
    };
}

static int ready_on_gpu(const void *arg)
{
    const struct args *args = arg;
    return hd_net_prepare_cuda(args->net, forward_rows(args), args->micro);
}

static int go_forward_on_gpu(const struct args *args, const struct hd_loss_pass *pass)
{
    struct hd_obs_norm norm;
    HD_TRY(hd_samples_count_cuda(args->loss->used(&pass->views[HD_LOSS_BATCH]), pass->first,
                                 pass->rows, pass->header, pass->stream));
    if (args->loss->obs)
        HD_TRY(hd_net_forward_cuda(args->net, pass->views[HD_LOSS_POLICY].data,
                                   hd_moments_get_obs_norm(&pass->views[HD_LOSS_NORM], &norm),
                                   args->loss->obs(pass), args->micro, pass->forward,
                                   (float *)pass->out, pass->stream));
    return args->loss->differentiate_on_gpu(args->loss_args, pass);
}

/* The counts of all buckets from that of element lo to that before hi. */
static int count_samples_on_gpu(const struct hd_view *grad, const struct hd_loss_pass *pass,
                                int64_t partial, int64_t lo, int64_t hi)
{
    float *counts = hd_grad_get_counts(grad->spec, grad->data, partial);
    int first = -1, end = 0;
    for (int bucket = 0; bucket < grad->spec->buckets; bucket++) {
        int64_t bucket_lo, bucket_hi;
        hd_spec_get_bucket(grad->spec, bucket, &bucket_lo, &bucket_hi);
        if (bucket_lo >= hi || bucket_hi <= lo)
            continue;
        first = first < 0 ? bucket : first;
        end = bucket + 1;
    }
    if (first < 0)
        return HD_OK;
    return hd_samples_fill_counts_cuda(hd_loss_get_used_address(pass), end - first, counts + first,
                                       pass->stream);
}

static int go_backward_on_gpu(const struct args *args, const struct hd_loss_pass *pass,
                              const struct work *work, int64_t item, int from, int to)
{
    const struct hd_view *grad = &pass->views[HD_LOSS_GRAD];
    int64_t lo, hi, unused;
    hd_net_get_stage_range(args->net, from, &lo, &unused);
    hd_net_get_stage_range(args->net, to - 1, &unused, &hi);
    HD_TRY(hd_net_backward_cuda(args->net, pass->views[HD_LOSS_POLICY].data, args->micro,
                                forward_rows(args), work->forward, work->dout, work->backward, from,
                                to, hd_grad_get_partial(grad->spec, grad->data, item),
                                pass->stream));
    return count_samples_on_gpu(grad, pass, item, lo, hi);
}

static int body_on_gpu(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    const int stage = context->stage;
    struct work work;
    lay_out(args, bytes_on_gpu(args), context->work, context->header, &work);
    struct hd_loss_pass pass = pass_of(args, views, context->item, &work);
    pass.stream = context->stream;
    if (stage == 0)
        HD_TRY(go_forward_on_gpu(args, &pass));
    if (in_one_stage(args))
        return go_backward_on_gpu(args, &pass, &work, context->item, 0, args->backward_stages);
    return stage == 0 ? HD_OK
                      : go_backward_on_gpu(args, &pass, &work, context->item, stage - 1, stage);
}

static const struct hd_gpu_verb on_gpu = {
    .body = body_on_gpu,
    .supports = supports_gpu,
    .get_subtasks = get_subtasks_on_gpu,
    .ready = ready_on_gpu,
    .graph_capturable = true,
};
#endif

const struct hd_verb hd_verb_loss_grad = {
    .name = "loss_grad",
    .stream_id = 0x8d40da7acaa4ad77,
    .ports = ports,
    .options = options,
    .declare = declare,
    .prepare = prepare,
    .release = release,
    .body = body,
    .get_subtasks = get_subtasks,
    .stage_range = stage_range,
    .finish = finish,
    .get_scope = get_scope,
    .count_cross_shard_sums = count_cross_shard_sums,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "the gradient of the loss over a batch, summed over its samples",
};
