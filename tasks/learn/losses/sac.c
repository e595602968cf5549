/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of the policy of soft actor-critic (kernels/learn/losses/sac_loss.h): it draws actions,
 * takes them through both critics, and back from the smaller value to the actions. Item r dims + d
 * of the step's stream is number d of row r of the batch. */
#include "kernels/learn/losses/sac_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/learn/losses/loss.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/critic.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/learn/temperature.h"

#include <string.h>

enum { LOSS, LOG_PROB, ALPHA, N_FIELDS };

/* adapt_temperature reads the log probability of the last update. */
static const struct hd_scalar_field fields[N_FIELDS] = {
    [LOSS] = {"policy_loss_avg", HD_MEAN, HD_LOSS_WINDOW},
    [LOG_PROB] = {"log_prob_avg", HD_MEAN, 1},
    [ALPHA] = {"alpha_avg", HD_MEAN, HD_LOSS_WINDOW},
};

enum { CRITICS = 2 };

struct args {
    int64_t rows, obs, dims;
    const struct hd_net *critic[CRITICS];
};

struct header {
    int64_t used;
    struct hd_sac_sums sums;
};

static int sac_prepare(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                       void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->rows = rows;
    args->obs = hd_net_count_obs(net);
    args->dims = hd_net_count_actions(net) / 2;
    for (int i = 0; i < CRITICS; i++) {
        const struct hd_spec *spec = setup->specs[HD_LOSS_CRITIC1 + i];
        args->critic[i] = hd_params_get_net(spec);
        HD_TRY(hd_critic_check(setup, spec));
        HD_TRY(hd_net_prepare(args->critic[i], rows, rows));
    }
    return HD_OK;
}

/* The arrays of a microbatch. */
struct scratch {
    struct hd_squashed *drawn;       /* [rows][dims] */
    float *joined, *log_prob;        /* [rows][obs + dims], [rows] */
    float *q[CRITICS], *dq[CRITICS]; /* [rows] */
    float *by_input[CRITICS];        /* [rows][ld_by_input] */
    void *forward[CRITICS], *backward;
};

/* The bytes of passes through critics, on a CPU or a GPU. */
struct passes {
    int64_t forward[CRITICS], backward, ld_by_input;
};

static int64_t lay_out(const struct args *args, const struct passes *passes, void *memory,
                       struct scratch *scratch)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t rows = args->rows;
    scratch->drawn = hd_arena_take(&arena, rows * args->dims, sizeof *scratch->drawn);
    scratch->joined = hd_arena_take(&arena, rows * (args->obs + args->dims), sizeof(float));
    scratch->log_prob = hd_arena_take(&arena, rows, sizeof *scratch->log_prob);
    for (int i = 0; i < CRITICS; i++) {
        scratch->q[i] = hd_arena_take(&arena, rows, sizeof(float));
        scratch->dq[i] = hd_arena_take(&arena, rows, sizeof(float));
        scratch->by_input[i] = hd_arena_take(&arena, rows * passes->ld_by_input, sizeof(float));
        scratch->forward[i] = hd_arena_take(&arena, passes->forward[i], 1);
    }
    scratch->backward = hd_arena_take(&arena, passes->backward, 1);
    return arena.used;
}

static int64_t lay_out_on_cpu(const struct args *args, void *memory, struct scratch *scratch)
{
    struct passes passes = {.ld_by_input = args->obs + args->dims};
    for (int i = 0; i < CRITICS; i++) {
        const int64_t backward = hd_net_get_backward_bytes(args->critic[i], args->rows, 1);
        passes.forward[i] = hd_net_get_forward_bytes(args->critic[i], args->rows, 1);
        passes.backward = backward > passes.backward ? backward : passes.backward;
    }
    return lay_out(args, &passes, memory, scratch);
}

static int64_t scratch_bytes(const void *args)
{
    struct scratch unused;
    return lay_out_on_cpu(args, NULL, &unused);
}

static struct hd_sac_draw make_draw(const struct args *args, const struct hd_loss_pass *pass)
{
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const float *obs = hd_batch_get_rows(view->spec, view->data).obs;
    return (struct hd_sac_draw){.rows = pass->rows,
                                .obs = args->obs,
                                .dims = args->dims,
                                .obs_rows = obs + pass->first * args->obs,
                                .out = pass->out,
                                .rng = pass->rng,
                                .first = (uint32_t)(pass->first * args->dims)};
}

/* Makes the loss of `rows` rows, without the temperature. */
static struct hd_sac_loss make_loss(const struct args *args, const struct scratch *s, int64_t rows,
                                    int64_t ld_by_input)
{
    return (struct hd_sac_loss){.rows = rows,
                                .obs = args->obs,
                                .dims = args->dims,
                                .drawn = s->drawn,
                                .log_prob = s->log_prob,
                                .q1 = s->q[0],
                                .q2 = s->q[1],
                                .by_input1 = s->by_input[0],
                                .by_input2 = s->by_input[1],
                                .ld_by_input = ld_by_input};
}

static void go_through_critics(const struct args *args, const struct hd_loss_pass *pass,
                               const struct scratch *s)
{
    const int64_t rows = pass->rows;
    for (int i = 0; i < CRITICS; i++)
        hd_net_forward(args->critic[i],
                       &(struct hd_net_pass){.params = pass->views[HD_LOSS_CRITIC1 + i].data,
                                             .obs = s->joined,
                                             .rows = rows,
                                             .work = s->forward[i]},
                       s->q[i]);
    hd_sac_choose_critic(rows, s->q[0], s->q[1], s->dq[0], s->dq[1]);
    for (int i = 0; i < CRITICS; i++)
        hd_net_backward_obs(args->critic[i], pass->views[HD_LOSS_CRITIC1 + i].data, rows, rows,
                            s->forward[i], s->dq[i], s->backward, s->by_input[i]);
}

static void sac_differentiate(const void *memory, const struct hd_loss_pass *pass)
{
    const struct args *args = memory;
    const struct hd_sac_draw draw = make_draw(args, pass);
    struct header *header = pass->header;
    struct scratch s;
    lay_out_on_cpu(args, pass->scratch, &s);
    hd_sac_draw_actions(&draw, s.joined, s.log_prob, s.drawn);
    go_through_critics(args, pass, &s);
    struct hd_sac_loss loss = make_loss(args, &s, header->used, args->obs + args->dims);
    loss.alpha = hd_temperature_get(pass->views[HD_LOSS_TEMPERATURE].data);
    memset(pass->dout, 0, (size_t)(pass->rows * 2 * args->dims) * sizeof *pass->dout);
    hd_sac_loss_compute(&loss, pass->dout, &header->sums);
}

#if HD_CUDA
static int64_t lay_out_on_gpu(const struct args *args, void *memory, struct scratch *scratch)
{
    struct passes passes = {.ld_by_input = hd_net_get_obs_cuda_ld(args->critic[0])};
    for (int i = 0; i < CRITICS; i++) {
        const int64_t backward = hd_net_get_backward_obs_cuda_bytes(args->critic[i], args->rows);
        passes.forward[i] = hd_net_get_forward_cuda_bytes(args->critic[i], args->rows);
        passes.backward = backward > passes.backward ? backward : passes.backward;
    }
    return lay_out(args, &passes, memory, scratch);
}

static int64_t scratch_bytes_on_gpu(const void *args)
{
    struct scratch unused;
    return lay_out_on_gpu(args, NULL, &unused);
}

static int ready_on_gpu(const void *memory)
{
    const struct args *args = memory;
    for (int i = 0; i < CRITICS; i++)
        HD_TRY(hd_net_prepare_cuda(args->critic[i], args->rows, args->rows));
    return HD_OK;
}

static int go_through_critics_on_gpu(const struct args *args, const struct hd_loss_pass *pass,
                                     const struct scratch *s)
{
    const int64_t rows = pass->rows;
    for (int i = 0; i < CRITICS; i++)
        HD_TRY(hd_net_forward_cuda(args->critic[i], pass->views[HD_LOSS_CRITIC1 + i].data, NULL,
                                   s->joined, rows, s->forward[i], s->q[i], pass->stream));
    HD_TRY(hd_sac_choose_critic_cuda(rows, s->q[0], s->q[1], s->dq[0], s->dq[1], pass->stream));
    for (int i = 0; i < CRITICS; i++)
        HD_TRY(hd_net_backward_obs_cuda(args->critic[i], pass->views[HD_LOSS_CRITIC1 + i].data,
                                        rows, rows, s->forward[i], s->dq[i], s->backward,
                                        s->by_input[i], pass->stream));
    return HD_OK;
}

static int differentiate_on_gpu(const void *memory, const struct hd_loss_pass *pass)
{
    const struct args *args = memory;
    const struct hd_sac_draw draw = make_draw(args, pass);
    const struct hd_temperature *temperature = pass->views[HD_LOSS_TEMPERATURE].data;
    struct scratch s;
    lay_out_on_gpu(args, pass->scratch, &s);
    HD_TRY(hd_sac_draw_actions_cuda(&draw, s.joined, s.log_prob, s.drawn, pass->stream));
    HD_TRY(go_through_critics_on_gpu(args, pass, &s));
    const struct hd_sac_loss loss =
        make_loss(args, &s, pass->rows, hd_net_get_obs_cuda_ld(args->critic[0]));
    return hd_sac_loss_compute_cuda(&loss, hd_loss_get_used_address(pass), &temperature->log_alpha,
                                    pass->dout, &((struct header *)pass->header)->sums,
                                    pass->stream);
}
#endif

static double sac_sum(const void *args, void *const *items, int64_t n, double *values,
                      double *weights)
{
    (void)args;
    double sums[N_FIELDS] = {0}, rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        sums[LOSS] += header->sums.loss;
        sums[LOG_PROB] += header->sums.log_prob;
        sums[ALPHA] += (double)header->sums.alpha * (double)header->used;
        rows += (double)header->used;
    }
    hd_loss_average(N_FIELDS, sums, rows, values, weights);
    return sums[LOSS];
}

const struct hd_loss hd_loss_sac = {
    .name = "sac",
    .batch = &hd_loss_batch,
    .critics = true,
    .passes = HD_LOSS_OBS,
    .fields = fields,
    .n_fields = N_FIELDS,
    .prepare = sac_prepare,
    .header_bytes = sizeof(struct header),
    .scratch_bytes = scratch_bytes,
    .differentiate = sac_differentiate,
#if HD_CUDA
    .differentiate_on_gpu = differentiate_on_gpu,
    .scratch_bytes_on_gpu = scratch_bytes_on_gpu,
    .ready_on_gpu = ready_on_gpu,
#endif
    .sum = sac_sum,
};
