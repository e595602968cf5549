/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad: the gradient of a loss over a shard's batch, as a sum over samples. The batch is
 * worked off in microbatches, the leaves of the tree that all shards' samples are summed in. */
#include "kernels/dqn_loss.h"
#include "kernels/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tasks/builtin.h"
#include "tasks/types/batch.h"
#include "tasks/types/params.h"
#include "tasks/types/scalars.h"

#include <math.h>
#include <string.h>

enum { POLICY, TARGET, BATCH, STATS, GRAD };
enum { CUR_LR, TOTAL_LOSS, Q_VALUE, TARGET_Q_VALUE, N_FIELDS };

static const struct hd_port ports[] = {
    {.name = "policy", .type = "params", .mode = HD_READ},
    {.name = "target", .type = "params", .mode = HD_READ},
    {.name = "batch", .type = "batch", .mode = HD_READ},
    {.name = "stats", .type = "scalars", .mode = HD_UPDATE, .optional = true},
    {.name = "grad", .type = "grad", .mode = HD_WRITE},
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
    int64_t batch, micro, obs, actions, nstep;
    double learning_rate;
    float gamma;
    int64_t elements;
    /* Scratch, in bytes from its start; sizes are multiples of 64. */
    int64_t obs_bytes, q_bytes, forward_bytes, backward_bytes, grad_bytes;
    int levels;
};

static int64_t padded(int64_t bytes)
{
    return (bytes + HD_ALIGNMENT - 1) / HD_ALIGNMENT * HD_ALIGNMENT;
}

static int check_microbatch(const struct hd_setup *setup, struct args *args)
{
    args->batch = hd_batch_shape(setup->specs[BATCH])->rows;
    args->micro = hd_config_int(setup->config, "policy.learn.microbatch");
    if (args->micro == 0)
        args->micro = args->batch;
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
    const struct hd_net *net = hd_params_net(setup->specs[POLICY]);
    HD_TRY(check_microbatch(setup, args));
    args->obs = hd_net_obs(net);
    args->actions = hd_net_actions(net);
    args->nstep = hd_batch_shape(setup->specs[BATCH])->nstep;
    args->gamma = (float)hd_config_real(setup->config, "policy.discount_factor");
    args->learning_rate = hd_config_real(setup->config, "policy.learn.learning_rate");
    args->elements = hd_net_elements(net);
    args->levels = hd_tree_levels(args->batch / args->micro);
    args->obs_bytes = padded(2 * args->micro * args->obs * (int64_t)sizeof(float));
    args->q_bytes = padded(4 * args->micro * args->actions * (int64_t)sizeof(float));
    args->forward_bytes = hd_net_forward_bytes(net, 2 * args->micro);
    args->backward_bytes = hd_net_backward_bytes(net, args->micro);
    args->grad_bytes = padded(args->elements * (int64_t)sizeof(float));
    return HD_OK;
}

static int64_t scratch_bytes(const void *arg)
{
    const struct args *args = arg;
    return args->obs_bytes + args->q_bytes + 2 * args->forward_bytes + args->backward_bytes +
           args->levels * args->grad_bytes;
}

/* A batch under way. */
struct work {
    const struct args *args;
    const struct hd_view *views;
    struct hd_transitions rows;
    float *obs, *q, *online_next, *target_next, *dq;
    char *forward, *target_forward, *backward, *grads;
    struct hd_dqn_sums sums;
};

static float *grad_at(const struct work *work, int level)
{
    return level == 0 ? work->views[GRAD].data
                      : (float *)(work->grads + level * work->args->grad_bytes);
}

static void forward(struct work *work, int64_t first)
{
    const struct args *args = work->args;
    const struct hd_net *net = hd_params_net(work->views[POLICY].spec);
    size_t row = (size_t)args->obs * sizeof(float), bytes = (size_t)args->micro * row;
    float *next = work->obs + args->micro * args->obs;
    memcpy(work->obs, (const float *)work->rows.obs + first * args->obs, bytes);
    memcpy(next, (const float *)work->rows.next_obs + first * args->obs, bytes);
    hd_net_forward(net, work->views[POLICY].data, work->obs, 2 * args->micro, work->forward,
                   work->q);
    hd_net_forward(net, work->views[TARGET].data, next, args->micro, work->target_forward,
                   work->target_next);
}

/* Leaf i: the sum of the gradients of microbatch i. */
static void *leaf(void *arg, int64_t i, int level)
{
    struct work *work = arg;
    const struct args *args = work->args;
    int64_t first = i * args->micro;
    const struct hd_dqn_loss loss = {
        .batch = args->micro,
        .actions = args->actions,
        .nstep = args->nstep,
        .gamma = args->gamma,
        .q = work->q,
        .online_next = work->online_next,
        .target_next = work->target_next,
        .action = work->rows.action + first,
        .reward = work->rows.reward + first,
        .ld_reward = args->batch,
        .done = work->rows.done + first,
        .value_gamma = work->rows.value_gamma ? work->rows.value_gamma + first : NULL,
    };
    struct hd_dqn_sums sums;
    forward(work, first);
    hd_dqn_loss(&loss, work->dq, NULL, &sums);
    work->sums.loss += sums.loss;
    work->sums.q += sums.q;
    work->sums.target_q += sums.target_q;
    float *grad = grad_at(work, level);
    hd_net_backward(hd_params_net(work->views[POLICY].spec), work->views[POLICY].data, args->micro,
                    2 * args->micro, work->forward, work->dq, work->backward, grad);
    return grad;
}

static void *add(void *arg, int level, void *left, void *right)
{
    const struct work *work = arg;
    float *restrict sum = left;
    const float *restrict term = right;
    for (int64_t i = 0; i < work->args->elements; i++)
        sum[i] += term[i];
    (void)level;
    return sum;
}

static struct work lay_out(const struct args *args, const struct hd_view *views, char *scratch)
{
    struct work work = {.args = args, .views = views};
    int64_t matrix = args->micro * args->actions;
    work.rows = hd_batch_rows(views[BATCH].spec, views[BATCH].data);
    work.obs = (float *)scratch;
    scratch += args->obs_bytes;
    work.q = (float *)scratch;
    work.online_next = work.q + matrix; /* rows of next_obs follow those of obs */
    work.target_next = work.online_next + matrix;
    work.dq = work.target_next + matrix;
    scratch += args->q_bytes;
    work.forward = scratch;
    work.target_forward = scratch + args->forward_bytes;
    work.backward = scratch + 2 * args->forward_bytes;
    work.grads = work.backward + args->backward_bytes;
    return work;
}

static void push_stats(const struct work *work, const struct hd_view *stats)
{
    const struct args *args = work->args;
    double matrix = (double)(args->batch * args->actions);
    if (!stats->data)
        return;
    hd_scalars_push(stats->spec, stats->data, CUR_LR, args->learning_rate, 1);
    hd_scalars_push(stats->spec, stats->data, TOTAL_LOSS, work->sums.loss / (double)args->batch, 1);
    hd_scalars_push(stats->spec, stats->data, Q_VALUE, work->sums.q / matrix, 1);
    hd_scalars_push(stats->spec, stats->data, TARGET_Q_VALUE, work->sums.target_q / matrix, 1);
}

static int body(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct args *args = arg;
    struct work work = lay_out(args, views, context->scratch);
    hd_tree_fold(0, args->batch / args->micro, leaf, add, &work);
    float *counts = hd_grad_counts(views[GRAD].spec, views[GRAD].data, 0);
    for (int part = 0; part < views[GRAD].spec->parts; part++)
        counts[part] = (float)args->batch;
    push_stats(&work, &views[STATS]);
    if (!isfinite(work.sums.loss))
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
    .scratch = scratch_bytes,
    .body = body,
    .help = "the gradient of the loss over a batch, summed over its samples",
};
