/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad: the gradient of a loss over a shard's batch, as a sum over samples. An item is a
 * microbatch, a leaf of the tree that all shards' samples are summed in. Its first stage goes
 * forward as far as the loss's derivative by the net's outputs, the others back through the net;
 * nets of one backward stage do all in one. Nets with batch norm stop at each norm in either
 * direction, for what all items of all shards add up to: with L levels of norms, stages 0 … L go
 * forward and L … 2 L back, and `finish` hands the batch's moments to the running statistics. */
#include "kernels/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/arena.h"
#include "tasks/builtin.h"
#include "tasks/losses/loss.h"
#include "tasks/rate.h"
#include "tasks/types/learn.h"
#include "tasks/types/norm_state.h"
#include "tasks/types/params.h"
#include "tasks/types/statistics.h"

#include <math.h>
#include <string.h>

static const struct hd_port ports[] = {
    [HD_LOSS_POLICY] = {.name = "policy", .type = "params", .mode = HD_READ, .span = HD_SPAN_RANGE},
    [HD_LOSS_TARGET] = {.name = "target", .type = "params", .mode = HD_READ, .optional = true},
    [HD_LOSS_BATCH] = {.name = "batch", .mode = HD_READ},
    [HD_LOSS_STATS] = {.name = "stats",
                       .type = "scalars",
                       .mode = HD_UPDATE,
                       .optional = true,
                       .span = HD_SPAN_LAST},
    [HD_LOSS_GRAD] = {.name = "grad", .type = "grad", .mode = HD_WRITE, .span = HD_SPAN_RANGE},
    [HD_LOSS_NORM] = {.name = "obs_norm", .type = "statistics", .mode = HD_READ, .optional = true},
    [HD_LOSS_NORM_STATE] = {.name = "norm_state",
                            .type = "norm_state",
                            .mode = HD_UPDATE,
                            .optional = true,
                            .span = HD_SPAN_LAST},
    [HD_LOSS_RATE] = {.name = "rate",
                      .type = "scalars",
                      .mode = HD_READ,
                      .optional = true,
                      .span = HD_SPAN_LAST},
    {0},
};

static const struct hd_option options[] = {{"loss", "bc|dqn|ppo", true}, {0}};

enum { MOST_FIELDS = 24 };

static const struct hd_loss *const losses[] = {&hd_loss_dqn, &hd_loss_bc, &hd_loss_ppo};

static const struct hd_loss *find_loss(const struct hd_setup *setup)
{
    const char *name = hd_setup_option(setup, "loss");
    for (int i = 0; i < (int)(sizeof losses / sizeof *losses); i++)
        if (name && strcmp(losses[i]->name, name) == 0)
            return losses[i];
    return losses[0]; /* the option's choices are these: it is missing in tests only */
}

static int declare(const struct hd_setup *setup)
{
    const struct hd_loss *loss = find_loss(setup);
    HD_TRY(hd_statistics_declare_obs(setup, setup->specs[HD_LOSS_NORM]));
    struct hd_scalar_field fields[MOST_FIELDS] = {{"cur_lr_avg", HD_MEAN, HD_LOSS_WINDOW}};
    memcpy(fields + 1, loss->fields, (size_t)loss->n_fields * sizeof *fields);
    return hd_scalars_declare(setup, setup->specs[HD_LOSS_STATS], "learner", fields,
                              loss->n_fields + 1);
}

struct args {
    const struct hd_loss *loss;
    void *loss_args;
    const struct hd_net *net;
    int64_t batch, micro, items;
    int backward_stages;
    int levels; /* of batch norms; 0: the net has none */
    struct hd_rate rate;
};

/* A microbatch's work memory. */
struct work {
    int64_t *rows; /* [1]: how many of its rows count */
    void *own;
    float *out, *dout; /* [micro][outputs] */
    char *forward, *backward;
};

static int64_t forward_rows(const struct args *args)
{
    return args->micro * (int64_t)args->loss->passes;
}

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct args *args, void *memory, struct work *work)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t own = args->loss->own_bytes(args->net, args->micro);
    const int64_t outputs = args->micro * hd_net_outputs(args->net);
    const int64_t forward = args->levels > 0 ? hd_net_training_bytes(args->net, args->micro)
                                             : hd_net_forward_bytes(args->net, forward_rows(args));
    const int64_t backward = args->levels > 0 ? 0 : hd_net_backward_bytes(args->net, args->micro);
    work->rows = hd_arena_take(&arena, 1, sizeof *work->rows);
    work->own = hd_arena_take(&arena, own, 1);
    work->out = hd_arena_take(&arena, args->loss->obs ? outputs : 0, sizeof *work->out);
    work->dout = hd_arena_take(&arena, outputs, sizeof *work->dout);
    work->forward = hd_arena_take(&arena, forward, 1);
    work->backward = hd_arena_take(&arena, backward, 1);
    return arena.used;
}

/* -- The task object ------------------------------------------------------------------------------
 */

static int check_ports(const struct hd_setup *setup, const struct hd_loss *loss)
{
    const struct hd_spec *batch = setup->specs[HD_LOSS_BATCH];
    if (strcmp(batch->type->name, loss->batch) != 0)
        return hd_diag_error(setup->diag, setup->mark,
                             "loss %s takes a batch of type %s, but '%s' is of type %s", loss->name,
                             loss->batch, batch->name, batch->type->name);
    if (loss->target != (setup->specs[HD_LOSS_TARGET] != NULL))
        return hd_diag_error(setup->diag, setup->mark, "loss %s %s (port 'target')", loss->name,
                             loss->target ? "needs a second value of type params under `reads`"
                                          : "has no use for a target net");
    return HD_OK;
}

static int check_norm(const struct hd_setup *setup, const struct args *args)
{
    const struct hd_node *node = hd_config_node(setup->config, "policy.model.norm");
    if (args->levels > 0 && !args->loss->obs)
        return hd_diag_error(setup->diag, node ? node->mark : setup->mark,
                             "norm: loss %s takes a batch through its nets more than once, each "
                             "time of other statistics; it needs nets without norms",
                             args->loss->name);
    return hd_norm_state_check(setup, setup->specs[HD_LOSS_POLICY], HD_LOSS_NORM_STATE);
}

static int check_microbatch(const struct hd_setup *setup, struct args *args)
{
    const struct hd_learn_shape learn = hd_learn_shape_of(setup->config);
    const bool asked = hd_config_int(setup->config, "policy.learn.microbatch") > 0;
    const char *key = asked ? "policy.learn.microbatch" : "policy.learn.batch_size";
    const struct hd_node *node = hd_config_node(setup->config, key);
    args->batch = learn.rows;
    args->micro = learn.micro;
    args->items = learn.leaves;
    if (learn.rows % learn.micro == 0)
        return HD_OK;
    return hd_diag_error(setup->diag, node ? node->mark : setup->mark,
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
    args->net = hd_params_net(setup->specs[HD_LOSS_POLICY]);
    HD_TRY(check_ports(setup, args->loss));
    HD_TRY(check_microbatch(setup, args));
    args->backward_stages = hd_net_stages(args->net);
    args->levels = hd_net_levels(args->net);
    HD_TRY(check_norm(setup, args));
    HD_TRY(hd_rate_prepare(setup, ports, HD_LOSS_RATE, &args->rate));
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

/* -- Pieces ---------------------------------------------------------------------------------------
 */

static void pieces(const void *arg, struct hd_pieces *pieces_p)
{
    const struct args *args = arg;
    struct work unused;
    *pieces_p = (struct hd_pieces){
        .items = args->items,
        .stages = args->levels > 0             ? 2 * args->levels + 1
                  : args->backward_stages == 1 ? 1
                                               : 1 + args->backward_stages,
        .work_bytes = lay_out(args, NULL, &unused),
        .finish_last = args->levels > 0,
    };
}

static enum hd_span span(const void *arg, int port)
{
    const struct args *args = arg;
    const bool throughout = port == HD_LOSS_POLICY || port == HD_LOSS_BATCH;
    return args->levels > 0 && throughout ? HD_SPAN_EVERY : ports[port].span;
}

static int64_t pool(const void *arg, int stage)
{
    return hd_net_training_sums(((const struct args *)arg)->net, stage);
}

static void stage_range(const void *arg, int stage, int64_t *lo_p, int64_t *hi_p)
{
    const struct args *args = arg;
    *lo_p = *hi_p = 0;
    if (args->levels > 0 ? stage == 2 * args->levels : args->backward_stages == 1)
        *hi_p = hd_net_elements(args->net);
    else if (stage > 0 && args->levels == 0)
        hd_net_stage_range(args->net, stage - 1, lo_p, hi_p);
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
        .own = work->own,
        .out = work->out,
        .dout = work->dout,
    };
}

static void go_forward(const struct args *args, const struct hd_view *views, int64_t item,
                       const struct work *work)
{
    struct hd_loss_pass pass = pass_of(args, views, item, work);
    struct hd_obs_norm norm;
    if (args->loss->obs) {
        const void *obs = args->loss->obs(&pass, &pass.used);
        hd_net_forward(args->net, views[HD_LOSS_POLICY].data,
                       hd_statistics_norm(&views[HD_LOSS_NORM], &norm), obs, args->micro,
                       work->forward, work->out);
    }
    *work->rows = args->loss->differentiate(args->loss_args, &pass);
}

/* The counts of all parts that a range touches. */
static void count_samples(const struct hd_view *grad, int64_t leaf, int64_t rows, int64_t lo,
                          int64_t hi)
{
    float *counts = hd_grad_counts(grad->spec, grad->data, leaf);
    for (int part = 0; part < grad->spec->parts; part++) {
        int64_t part_lo, part_hi;
        hd_spec_part(grad->spec, part, &part_lo, &part_hi);
        if (part_lo < hi && part_hi > lo)
            counts[part] = (float)rows;
    }
}

static void go_backward(const struct args *args, const struct hd_view *views, int64_t item,
                        int stage, const struct work *work)
{
    const struct hd_view *grad = &views[HD_LOSS_GRAD];
    int64_t lo, hi;
    hd_net_stage_range(args->net, stage, &lo, &hi);
    hd_net_backward(args->net, views[HD_LOSS_POLICY].data, args->micro, forward_rows(args),
                    work->forward, work->dout, work->backward, stage,
                    hd_grad_leaf(grad->spec, grad->data, item));
    count_samples(grad, item, *work->rows, lo, hi);
}

/* A stage of a net with batch norm; the one in the middle goes both ways. */
static void go_through_norms(const struct hd_context *context, const struct hd_view *views,
                             const struct args *args, const struct work *work)
{
    const struct hd_view *grad = &views[HD_LOSS_GRAD];
    const int stage = context->stage, levels = args->levels;
    struct hd_loss_pass pass = pass_of(args, views, context->item, work);
    struct hd_obs_norm norm;
    const struct hd_training_pass training = {
        .params = views[HD_LOSS_POLICY].data,
        .norm = hd_statistics_norm(&views[HD_LOSS_NORM], &norm),
        .obs = args->loss->obs(&pass, &pass.used),
        .batch = args->micro,
        .used = pass.used,
        .work = work->forward,
        .q = work->out,
        .dq = work->dout,
        .grad = stage == 2 * levels ? hd_grad_leaf(grad->spec, grad->data, context->item) : NULL,
    };
    if (stage <= levels)
        hd_net_training_forward(args->net, &training, stage, context->pooled, context->pool);
    if (stage == levels)
        *work->rows = args->loss->differentiate(args->loss_args, &pass);
    if (stage >= levels)
        hd_net_training_backward(args->net, &training, stage - levels, context->pooled,
                                 context->pool);
    if (stage == 2 * levels)
        count_samples(grad, context->item, *work->rows, 0, hd_net_elements(args->net));
}

static int body(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    struct work work;
    lay_out(args, context->work, &work);
    if (args->levels > 0) {
        go_through_norms(context, views, args, &work);
        return HD_OK;
    }
    if (context->stage == 0)
        go_forward(args, views, context->item, &work);
    if (args->backward_stages == 1 || context->stage > 0)
        go_backward(args, views, context->item, args->backward_stages == 1 ? 0 : context->stage - 1,
                    &work);
    return HD_OK;
}

/* Every shard's copy takes in the same. */
static void track(const struct args *args, const struct hd_view *state, void *memory)
{
    struct work work;
    lay_out(args, memory, &work);
    const struct hd_training_pass training = {.batch = args->micro, .work = work.forward};
    *hd_norm_state_batches(state->data) +=
        hd_net_track(args->net, &training, hd_norm_state_running(state->data));
}

static int finish(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    const struct hd_view *stats = &views[HD_LOSS_STATS];
    double values[MOST_FIELDS], weights[MOST_FIELDS];
    void **own = context->scratch;
    for (int64_t item = 0; item < args->items; item++) {
        struct work work;
        lay_out(args, context->works[item], &work);
        own[item] = work.own;
    }
    if (args->levels > 0)
        track(args, &views[HD_LOSS_NORM_STATE], context->works[0]);
    double loss = args->loss->sum(args->loss_args, own, args->items, values, weights);
    if (stats->data)
        hd_scalars_push(stats->spec, stats->data, 0, hd_rate_now(&args->rate, &views[HD_LOSS_RATE]),
                        weights[0]);
    for (int i = 0; stats->data && i < args->loss->n_fields; i++)
        hd_scalars_push(stats->spec, stats->data, i + 1, values[i], weights[i]);
    if (!isfinite(loss))
        return hd_body_fail(context, "the loss of update %lld is not a number (shard %lld)",
                            (long long)context->update + 1, (long long)context->shard);
    return HD_OK;
}

static int64_t scratch(const void *arg)
{
    return ((const struct args *)arg)->items * (int64_t)sizeof(void *);
}

const struct hd_verb hd_verb_loss_grad = {
    .name = "loss_grad",
    .ports = ports,
    .options = options,
    .declare = declare,
    .prepare = prepare,
    .release = release,
    .scratch = scratch,
    .body = body,
    .pieces = pieces,
    .stage_range = stage_range,
    .finish = finish,
    .span = span,
    .pool = pool,
    .help = "the gradient of the loss over a batch, summed over its samples",
};
