/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad: the gradient of a loss over a shard's batch, as a sum over samples. An item is a
 * microbatch, a leaf of the tree that all shards' samples are summed in. Its first stage goes
 * forward as far as dL/dq, the others back through the net; nets of one backward stage do all in
 * one. */
#include "kernels/dqn_loss.h"
#include "kernels/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/batch.h"
#include "tasks/types/params.h"
#include "tasks/types/scalars.h"

#include <math.h>

enum { POLICY, TARGET, BATCH, STATS, GRAD };
enum { CUR_LR, TOTAL_LOSS, Q_VALUE, TARGET_Q_VALUE, N_FIELDS };

static const struct hd_port ports[] = {
    {.name = "policy", .type = "params", .mode = HD_READ, .span = HD_SPAN_RANGE},
    {.name = "target", .type = "params", .mode = HD_READ},
    {.name = "batch", .type = "batch", .mode = HD_READ},
    {.name = "stats", .type = "scalars", .mode = HD_UPDATE, .optional = true, .span = HD_SPAN_LAST},
    {.name = "grad", .type = "grad", .mode = HD_WRITE, .span = HD_SPAN_RANGE},
    {0},
};

static const struct hd_option options[] = {{"loss", "dqn", true}, {0}};

/* DI-engine's learner shows the mean of the last 11 updates (spec 8.2). */
enum { WINDOW = 11 };
static const struct hd_scalar_field fields[N_FIELDS] = {
    [CUR_LR] = {"cur_lr_avg", HD_MEAN, WINDOW},
    [TOTAL_LOSS] = {"total_loss_avg", HD_MEAN, WINDOW},
    [Q_VALUE] = {"q_value_avg", HD_MEAN, WINDOW},
    [TARGET_Q_VALUE] = {"target_q_value_avg", HD_MEAN, WINDOW},
};

static int declare(const struct hd_setup *setup)
{
    return hd_scalars_declare(setup, setup->specs[STATS], "learner", fields, N_FIELDS);
}

struct args {
    const struct hd_net *net;
    int64_t batch, micro, items, actions, nstep;
    double learning_rate;
    float gamma;
    int backward_stages;
    /* Work memory of an item, in bytes from its start; sizes are multiples of 64. */
    int64_t sums_bytes, q_bytes, forward_bytes, backward_bytes;
};

static int check_microbatch(const struct hd_setup *setup, struct args *args)
{
    args->batch = hd_batch_shape(setup->specs[BATCH])->rows;
    args->micro = hd_config_int(setup->config, "policy.learn.microbatch");
    if (args->micro == 0)
        args->micro = args->batch;
    args->items = args->batch / args->micro;
    if (args->batch % args->micro == 0)
        return HD_OK;
    const struct hd_node *node = hd_config_node(setup->config, "policy.learn.microbatch");
    return hd_diag_error(setup->diag, node ? node->mark : setup->mark,
                         "microbatch: expected a divisor of batch_size %lld, found %lld",
                         (long long)args->batch, (long long)args->micro);
}

static int prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    const struct hd_net *net = args->net = hd_params_net(setup->specs[POLICY]);
    HD_TRY(check_microbatch(setup, args));
    HD_TRY(hd_net_prepare(net, 2 * args->micro, args->micro));
    HD_TRY(hd_net_prepare(net, args->micro, 0));
    args->actions = hd_net_actions(net);
    args->nstep = hd_batch_shape(setup->specs[BATCH])->nstep;
    args->gamma = (float)hd_config_real(setup->config, "policy.discount_factor");
    args->learning_rate = hd_config_real(setup->config, "policy.learn.learning_rate");
    args->backward_stages = hd_net_stages(net);
    args->sums_bytes = hd_padded(sizeof(struct hd_dqn_sums));
    args->q_bytes = hd_padded(4 * args->micro * args->actions * (int64_t)sizeof(float));
    args->forward_bytes = hd_net_forward_bytes(net, 2 * args->micro);
    args->backward_bytes = hd_net_backward_bytes(net, args->micro);
    return HD_OK;
}

static void pieces(const void *arg, struct hd_pieces *pieces_p)
{
    const struct args *args = arg;
    *pieces_p = (struct hd_pieces){
        .items = args->items,
        .stages = args->backward_stages == 1 ? 1 : 1 + args->backward_stages,
        .work_bytes = args->sums_bytes + args->q_bytes + args->forward_bytes + args->backward_bytes,
    };
}

static void stage_range(const void *arg, int stage, int64_t *lo_p, int64_t *hi_p)
{
    const struct args *args = arg;
    *lo_p = *hi_p = 0;
    if (args->backward_stages == 1)
        *hi_p = hd_net_elements(args->net);
    else if (stage > 0)
        hd_net_stage_range(args->net, stage - 1, lo_p, hi_p);
}

/* A microbatch under way: its work memory. */
struct work {
    struct hd_dqn_sums *sums;
    float *q, *online_next, *target_next, *dq;
    char *forward, *backward;
};

static struct work lay_out(const struct args *args, char *memory)
{
    int64_t matrix = args->micro * args->actions;
    float *q = (float *)(memory + args->sums_bytes);
    char *forward = memory + args->sums_bytes + args->q_bytes;
    return (struct work){
        .sums = (struct hd_dqn_sums *)memory,
        .q = q,
        .online_next = q + matrix, /* rows of next_obs follow those of obs */
        .target_next = q + 2 * matrix,
        .dq = q + 3 * matrix,
        .forward = forward,
        .backward = forward + args->forward_bytes,
    };
}

/* As far as dL/dq. The target's activations are not needed again: the policy's take their place. */
static void go_forward(const struct args *args, const struct hd_view *views, int64_t item,
                       const struct work *work)
{
    const struct hd_transitions rows = hd_batch_rows(views[BATCH].spec, views[BATCH].data);
    const int64_t first = item * args->micro, bytes = hd_net_obs_bytes(args->net);
    const char *obs = (const char *)rows.obs + first * bytes;
    const char *next_obs = (const char *)rows.next_obs + first * bytes;
    const struct hd_dqn_loss loss = {
        .batch = args->micro,
        .actions = args->actions,
        .nstep = args->nstep,
        .gamma = args->gamma,
        .q = work->q,
        .online_next = work->online_next,
        .target_next = work->target_next,
        .action = rows.action + first,
        .reward = rows.reward + first,
        .ld_reward = args->batch,
        .done = rows.done + first,
        .value_gamma = rows.value_gamma ? rows.value_gamma + first : NULL,
    };
    hd_net_forward(args->net, views[TARGET].data, next_obs, args->micro, work->forward,
                   work->target_next);
    hd_net_forward_pair(args->net, views[POLICY].data, obs, next_obs, args->micro, work->forward,
                        work->q);
    hd_dqn_loss(&loss, work->dq, NULL, work->sums);
}

/* The counts of all parts that a range touches. */
static void count_samples(const struct args *args, const struct hd_view *grad, int64_t leaf,
                          int64_t lo, int64_t hi)
{
    float *counts = hd_grad_counts(grad->spec, grad->data, leaf);
    for (int part = 0; part < grad->spec->parts; part++) {
        int64_t part_lo, part_hi;
        hd_spec_part(grad->spec, part, &part_lo, &part_hi);
        if (part_lo < hi && part_hi > lo)
            counts[part] = (float)args->micro;
    }
}

static void go_backward(const struct args *args, const struct hd_view *views, int64_t item,
                        int stage, const struct work *work)
{
    int64_t lo, hi;
    hd_net_stage_range(args->net, stage, &lo, &hi);
    hd_net_backward(args->net, views[POLICY].data, args->micro, 2 * args->micro, work->forward,
                    work->dq, work->backward, stage,
                    hd_grad_leaf(views[GRAD].spec, views[GRAD].data, item));
    count_samples(args, &views[GRAD], item, lo, hi);
}

static int body(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    const struct work work = lay_out(args, context->work);
    if (context->stage == 0)
        go_forward(args, views, context->item, &work);
    if (args->backward_stages == 1 || context->stage > 0)
        go_backward(args, views, context->item, args->backward_stages == 1 ? 0 : context->stage - 1,
                    &work);
    return HD_OK;
}

static void push_stats(const struct args *args, const struct hd_dqn_sums *sums,
                       const struct hd_view *stats)
{
    double matrix = (double)(args->batch * args->actions);
    if (!stats->data)
        return;
    hd_scalars_push(stats->spec, stats->data, CUR_LR, args->learning_rate, 1);
    hd_scalars_push(stats->spec, stats->data, TOTAL_LOSS, sums->loss / (double)args->batch, 1);
    hd_scalars_push(stats->spec, stats->data, Q_VALUE, sums->q / matrix, 1);
    hd_scalars_push(stats->spec, stats->data, TARGET_Q_VALUE, sums->target_q / matrix, 1);
}

static int finish(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    struct hd_dqn_sums sums = {0};
    for (int64_t item = 0; item < args->items; item++) {
        const struct work work = lay_out(args, context->works[item]);
        sums.loss += work.sums->loss;
        sums.q += work.sums->q;
        sums.target_q += work.sums->target_q;
    }
    push_stats(args, &sums, &views[STATS]);
    if (!isfinite(sums.loss))
        return hd_body_fail(context, "the loss of update %lld is not a number (shard %lld)",
                            (long long)context->update + 1, (long long)context->shard);
    return HD_OK;
}

const struct hd_verb hd_verb_loss_grad = {
    .name = "loss_grad",
    .ports = ports,
    .options = options,
    .declare = declare,
    .prepare = prepare,
    .body = body,
    .pieces = pieces,
    .stage_range = stage_range,
    .finish = finish,
    .help = "the gradient of the loss over a batch, summed over its samples",
};
