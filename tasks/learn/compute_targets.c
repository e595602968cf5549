/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `compute_targets`: makes of a batch what critics learn from it in soft actor-critic: its
 * observations and actions, and the targets of their values, from actions that the policy draws at
 * the next observations (kernels/learn/losses/sac_loss.h). Item r dims + d of the step's stream is
 * number d of row r. */
#include "kernels/learn/losses/sac_loss.h"
#include "kernels/net/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/base/builtin.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/critic_batch.h"
#include "tasks/types/learn/critic.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/learn/temperature.h"

#include <string.h>

enum { POLICY, TARGET1, TARGET2, TEMPERATURE, BATCH, CRITIC_BATCH };

static const struct hd_port ports[] = {
    [POLICY] = {"policy", "params", .mode = HD_READ},
    [TARGET1] = {"target1", "params", .mode = HD_READ},
    [TARGET2] = {"target2", "params", .mode = HD_READ},
    [TEMPERATURE] = {"temperature", "temperature", .mode = HD_READ},
    [BATCH] = {"batch", "batch", .mode = HD_READ},
    [CRITIC_BATCH] = {"critic_batch", "critic_batch", .mode = HD_WRITE},
    {0},
};

struct args {
    const struct hd_critic_batch_shape *shape;
    const struct hd_net *net[3]; /* in the order of their ports */
    float gamma;
};

static int compute_targets_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    HD_TRY(hd_policy_check_loss(setup, "sac"));
    args->gamma = (float)hd_config_get_real(setup->config, "policy.discount_factor");
    args->shape = hd_critic_batch_get_shape(setup->specs[CRITIC_BATCH]);
    for (int i = POLICY; i <= TARGET2; i++) {
        args->net[i] = hd_params_get_net(setup->specs[i]);
        HD_TRY(i == POLICY ? hd_policy_net_check(setup, args->net[i])
                           : hd_critic_check(setup, setup->specs[i]));
        HD_TRY(hd_net_prepare(args->net[i], args->shape->rows, 0));
    }
    return HD_OK;
}

struct work {
    float *out, *joined, *log_prob, *q1, *q2;
    void *forward;
};

/* The memory of passes lies behind all else. */
static int64_t lay_out(const struct args *args, void *memory, struct work *work)
{
    struct hd_arena arena = {.memory = memory};
    const struct hd_critic_batch_shape *shape = args->shape;
    const int64_t rows = shape->rows;
    work->out = hd_arena_take(&arena, rows * 2 * shape->dims, sizeof *work->out);
    work->joined = hd_arena_take(&arena, rows * (shape->obs + shape->dims), sizeof *work->joined);
    work->log_prob = hd_arena_take(&arena, rows, sizeof *work->log_prob);
    work->q1 = hd_arena_take(&arena, rows, sizeof *work->q1);
    work->q2 = hd_arena_take(&arena, rows, sizeof *work->q2);
    work->forward = hd_arena_take(&arena, 0, 1);
    return arena.used;
}

static int64_t compute_targets_scratch(const void *memory)
{
    const struct args *args = memory;
    struct work unused;
    int64_t most = 0;
    for (int i = POLICY; i <= TARGET2; i++) {
        const int64_t bytes = hd_net_get_forward_bytes(args->net[i], args->shape->rows, 1);
        most = bytes > most ? bytes : most;
    }
    return lay_out(args, NULL, &unused) + most;
}

/* Joins the batch's observations with the actions taken there. */
static void join_actions(const struct hd_critic_batch_shape *shape,
                         const struct hd_transitions *rows, float *input)
{
    const float *obs = rows->obs, *action = &rows->action->real;
    for (int64_t r = 0; r < shape->rows; r++, input += shape->obs + shape->dims) {
        memcpy(input, obs + r * shape->obs, (size_t)shape->obs * sizeof *input);
        memcpy(input + shape->obs, action + r * shape->dims, (size_t)shape->dims * sizeof *input);
    }
}

/* Computes the outputs of the net of a port. */
static void forward(const struct args *args, const struct hd_view *views, int port, const void *obs,
                    void *work, float *out)
{
    const struct hd_net_pass pass = {
        .params = views[port].data, .obs = obs, .rows = args->shape->rows, .work = work};
    hd_net_forward(args->net[port], &pass, out);
}

static struct hd_sac_draw make_draw(const struct args *args, const struct hd_transitions *rows,
                                    const struct work *work, const struct hd_rng *rng)
{
    return (struct hd_sac_draw){.rows = args->shape->rows,
                                .obs = args->shape->obs,
                                .dims = args->shape->dims,
                                .obs_rows = rows->next_obs,
                                .out = work->out,
                                .rng = rng};
}

/* Makes the targets, without the temperature. */
static struct hd_sac_targets make_targets(const struct args *args, const struct hd_view *batch,
                                          const struct hd_transitions *rows,
                                          const struct work *work)
{
    return (struct hd_sac_targets){.rows = args->shape->rows,
                                   .nstep = hd_batch_get_shape(batch->spec)->nstep,
                                   .gamma = args->gamma,
                                   .reward = rows->reward,
                                   .ld_reward = args->shape->rows,
                                   .done = rows->done,
                                   .value_gamma = rows->value_gamma,
                                   .q1 = work->q1,
                                   .q2 = work->q2,
                                   .log_prob = work->log_prob};
}

static int compute_targets_body(struct hd_context *context, const struct hd_view *views,
                                const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *batch = &views[BATCH];
    const struct hd_transitions rows = hd_batch_get_rows(batch->spec, batch->data);
    const struct hd_critic_batch to =
        hd_critic_batch_get(views[CRITIC_BATCH].spec, views[CRITIC_BATCH].data);
    struct work work;
    lay_out(args, context->scratch, &work);
    *to.used = *hd_batch_get_use(batch->spec, batch->data).used;
    join_actions(args->shape, &rows, to.input);
    forward(args, views, POLICY, rows.next_obs, work.forward, work.out);
    const struct hd_sac_draw draw = make_draw(args, &rows, &work, &context->rng);
    hd_sac_draw_actions(&draw, work.joined, work.log_prob, NULL);
    forward(args, views, TARGET1, work.joined, work.forward, work.q1);
    forward(args, views, TARGET2, work.joined, work.forward, work.q2);
    struct hd_sac_targets targets = make_targets(args, batch, &rows, &work);
    targets.alpha = hd_temperature_get(views[TEMPERATURE].data);
    hd_sac_compute_targets(&targets, to.target);
    return HD_OK;
}

#if HD_CUDA
static int64_t scratch_on_gpu(const void *memory)
{
    const struct args *args = memory;
    struct work unused;
    int64_t most = 0;
    for (int i = POLICY; i <= TARGET2; i++) {
        const int64_t bytes = hd_net_get_forward_cuda_bytes(args->net[i], args->shape->rows);
        most = bytes > most ? bytes : most;
    }
    return lay_out(args, NULL, &unused) + most;
}

static int ready(const void *memory)
{
    const struct args *args = memory;
    for (int i = POLICY; i <= TARGET2; i++)
        HD_TRY(hd_net_prepare_cuda(args->net[i], args->shape->rows, 0));
    return HD_OK;
}

static int forward_on_gpu(const struct args *args, const struct hd_view *views, int port,
                          const void *obs, void *work, float *out, void *stream)
{
    return hd_net_forward_cuda(args->net[port], views[port].data, NULL, obs, args->shape->rows,
                               work, out, stream);
}

static int body_on_gpu(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *batch = &views[BATCH];
    const struct hd_transitions rows = hd_batch_get_rows(batch->spec, batch->data);
    const struct hd_critic_batch to =
        hd_critic_batch_get(views[CRITIC_BATCH].spec, views[CRITIC_BATCH].data);
    const struct hd_temperature *temperature = views[TEMPERATURE].data;
    void *stream = context->stream;
    struct work w;
    lay_out(args, context->scratch, &w);
    const struct hd_sac_join join = {.rows = args->shape->rows,
                                     .obs = args->shape->obs,
                                     .dims = args->shape->dims,
                                     .obs_rows = rows.obs,
                                     .action = &rows.action->real,
                                     .used = hd_batch_get_use(batch->spec, batch->data).used};
    HD_TRY(hd_sac_join_cuda(&join, to.input, to.used, stream));
    HD_TRY(forward_on_gpu(args, views, POLICY, rows.next_obs, w.forward, w.out, stream));
    const struct hd_sac_draw draw = make_draw(args, &rows, &w, context->inputs);
    HD_TRY(hd_sac_draw_actions_cuda(&draw, w.joined, w.log_prob, NULL, stream));
    HD_TRY(forward_on_gpu(args, views, TARGET1, w.joined, w.forward, w.q1, stream));
    HD_TRY(forward_on_gpu(args, views, TARGET2, w.joined, w.forward, w.q2, stream));
    const struct hd_sac_targets targets = make_targets(args, batch, &rows, &w);
    return hd_sac_compute_targets_cuda(&targets, &temperature->log_alpha, to.target, stream);
}

static const struct hd_gpu_verb on_gpu = {.body = body_on_gpu,
                                          .scratch = scratch_on_gpu,
                                          .ready = ready,
                                          .graph_capturable = true,
                                          .set_inputs = hd_inputs_set_rng,
                                          .input_bytes = sizeof(struct hd_rng)};
#endif

const struct hd_verb hd_verb_compute_targets = {
    .name = "compute_targets",
    .stream_id = 0x51c7a3f09be2d846,
    .ports = ports,
    .prepare = compute_targets_prepare,
    .scratch = compute_targets_scratch,
    .body = compute_targets_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "computes the values that the critics of soft actor-critic learn from a batch",
};
