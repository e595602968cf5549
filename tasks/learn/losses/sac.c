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
    float alpha;
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
    float *by_input[CRITICS];        /* [rows][obs + dims] */
    void *forward[CRITICS], *backward;
};

static int64_t lay_out(const struct args *args, void *memory, struct scratch *scratch)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t rows = args->rows, inputs = rows * (args->obs + args->dims);
    int64_t backward = 0;
    scratch->drawn = hd_arena_take(&arena, rows * args->dims, sizeof *scratch->drawn);
    scratch->joined = hd_arena_take(&arena, inputs, sizeof *scratch->joined);
    scratch->log_prob = hd_arena_take(&arena, rows, sizeof *scratch->log_prob);
    for (int i = 0; i < CRITICS; i++) {
        const int64_t bytes = hd_net_get_backward_bytes(args->critic[i], rows, 1);
        backward = bytes > backward ? bytes : backward;
        scratch->q[i] = hd_arena_take(&arena, rows, sizeof(float));
        scratch->dq[i] = hd_arena_take(&arena, rows, sizeof(float));
        scratch->by_input[i] = hd_arena_take(&arena, inputs, sizeof(float));
        scratch->forward[i] =
            hd_arena_take(&arena, hd_net_get_forward_bytes(args->critic[i], rows, 1), 1);
    }
    scratch->backward = hd_arena_take(&arena, backward, 1);
    return arena.used;
}

static int64_t scratch_bytes(const void *args)
{
    struct scratch unused;
    return lay_out(args, NULL, &unused);
}

static void draw_actions(const struct args *args, const struct hd_loss_pass *pass,
                         const struct scratch *scratch)
{
    const struct hd_view *view = &pass->views[HD_LOSS_BATCH];
    const float *obs = hd_batch_get_rows(view->spec, view->data).obs;
    const struct hd_sac_draw draw = {.rows = pass->rows,
                                     .obs = args->obs,
                                     .dims = args->dims,
                                     .obs_rows = obs + pass->first * args->obs,
                                     .out = pass->out,
                                     .rng = pass->rng,
                                     .first = (uint32_t)(pass->first * args->dims)};
    hd_sac_draw_actions(&draw, scratch->joined, scratch->log_prob, scratch->drawn);
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
    struct header *header = pass->header;
    struct scratch s;
    lay_out(args, pass->scratch, &s);
    draw_actions(args, pass, &s);
    go_through_critics(args, pass, &s);
    header->alpha = hd_temperature_get(pass->views[HD_LOSS_TEMPERATURE].data);
    const struct hd_sac_loss loss = {.rows = header->used,
                                     .obs = args->obs,
                                     .dims = args->dims,
                                     .alpha = header->alpha,
                                     .drawn = s.drawn,
                                     .log_prob = s.log_prob,
                                     .q1 = s.q[0],
                                     .q2 = s.q[1],
                                     .by_input1 = s.by_input[0],
                                     .by_input2 = s.by_input[1]};
    memset(pass->dout, 0, (size_t)(pass->rows * 2 * args->dims) * sizeof *pass->dout);
    hd_sac_loss_compute(&loss, pass->dout, &header->sums);
}

static double sac_sum(const void *args, void *const *items, int64_t n, double *values,
                      double *weights)
{
    (void)args;
    double sums[N_FIELDS] = {0}, rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct header *header = items[i];
        sums[LOSS] += header->sums.loss;
        sums[LOG_PROB] += header->sums.log_prob;
        sums[ALPHA] += (double)header->alpha * (double)header->used;
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
    .sum = sac_sum,
};
