/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a whole update on the kernels alone, then each part of it. DQN: obs and next_obs
 * forward, target forward, loss, backward, Adam. PPO, for nets with an actor and a critic: obs
 * forward, advantages standardised, loss, backward, the gradient's norm, Adam of the clipped
 * gradient; values and advantages are those of the start of an epoch. */
#include "bench/parts/nets.h"
#include "bench/parts/parts.h"
#include "kernels/learn/adam.h"
#include "kernels/learn/grad_norm.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "kernels/learn/losses/ppo_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct update {
    struct hd_net *net;
    bool ppo;
    int64_t batch, rows; /* rows of a forward pass: obs, and in DQN also next_obs */
    int64_t t;
    float scale; /* factor by which the clip reduces the gradient */
    int stage;   /* stage of the backward pass */
    char *obs;   /* obs rows, then next_obs rows */
    void *params, *target;
    float *grad, *m, *v;
    void *work, *scratch;
    float *q, *next, *dq;
    struct hd_dqn_loss dqn_loss;
    struct hd_ppo_loss ppo_loss;
    float *advantage;
    struct hd_adam adam;
};

static void target_forward(void *arg)
{
    const struct update *u = arg;
    const char *next_obs = u->obs + u->batch * hd_net_get_obs_bytes(u->net);
    hd_net_forward(u->net,
                   &(struct hd_net_pass){
                       .params = u->target, .obs = next_obs, .rows = u->batch, .work = u->work},
                   u->next);
}

static void forward(void *arg)
{
    const struct update *u = arg;
    hd_net_forward(
        u->net,
        &(struct hd_net_pass){.params = u->params, .obs = u->obs, .rows = u->rows, .work = u->work},
        u->q);
}

static void loss(void *arg)
{
    struct hd_dqn_sums dqn_sums;
    struct hd_ppo_sums ppo_sums;
    const struct update *u = arg;
    if (!u->ppo) {
        hd_dqn_loss_compute(&u->dqn_loss, u->dq, NULL, &dqn_sums);
        return;
    }
    hd_standardise(u->advantage, u->batch);
    hd_ppo_loss_compute(&u->ppo_loss, u->dq, &ppo_sums);
}

static void backward(void *arg)
{
    const struct update *u = arg;
    hd_net_backward(u->net, u->params, u->batch, u->rows, u->work, u->dq, u->scratch, u->stage,
                    u->grad);
}

/* Adds blocks of HD_BLOCK elements, like the verb grad_norm. */
static void norm(void *arg)
{
    const double longest = 0.5;
    struct update *u = arg;
    const int64_t n = hd_net_count_params(u->net);
    double squares = 0;
    for (int64_t at = 0; at < n; at += HD_BLOCK)
        squares += hd_grad_norm_sum_squares(u->grad + at, n - at < HD_BLOCK ? n - at : HD_BLOCK);
    const double coefficient = longest / (sqrt(squares) / (double)u->batch + 1e-6);
    u->scale = coefficient < 1 ? (float)coefficient : 1;
}

static void step(void *arg)
{
    struct update *u = arg;
    const int64_t n = hd_net_count_params(u->net);
    u->t++;
    for (int64_t at = 0; at < n; at += HD_BLOCK) {
        int64_t end = n - at < HD_BLOCK ? n : at + HD_BLOCK;
        hd_adam_step(&u->adam, u->t, end - at, u->grad + at, (float)u->batch, u->scale, u->m + at,
                     u->v + at, (float *)u->params + at);
        hd_net_refresh(u->net, u->params, at, end);
    }
}

static void update(void *arg)
{
    struct update *u = arg;
    if (!u->ppo)
        target_forward(u);
    forward(u);
    loss(u);
    for (u->stage = 0; u->stage < hd_net_count_stages(u->net); u->stage++)
        backward(u);
    if (u->ppo)
        norm(u);
    step(u);
}

static int allocate_dqn_loss(struct update *u)
{
    const int64_t b = u->batch, actions = hd_net_count_actions(u->net);
    float *reward = hd_alloc(b, 4), *done = hd_alloc(b, 4);
    int32_t *action = hd_alloc(b, 4);
    u->next = hd_alloc(b * actions, 4);
    u->dqn_loss = (struct hd_dqn_loss){.batch = b,
                                       .actions = actions,
                                       .nstep = 1,
                                       .gamma = 0.97f,
                                       .q = u->q,
                                       .online_next = u->q + b * actions,
                                       .target_next = u->next,
                                       .action = action,
                                       .reward = reward,
                                       .ld_reward = b,
                                       .done = done};
    return reward && done && action && u->next ? HD_OK : HD_ERR_NOMEM;
}

static int allocate_ppo_loss(struct update *u)
{
    const int64_t b = u->batch, actions = hd_net_count_actions(u->net);
    float *logit = hd_alloc(b * actions, 4), *value = hd_alloc(b, 4);
    float *target = hd_alloc(b, 4);
    union hd_action_number *action = hd_alloc(b, 4);
    u->advantage = hd_alloc(b, 4);
    for (int64_t i = 0; u->advantage && target && i < b; i++) {
        u->advantage[i] = i % 2 ? 1 : -1;
        target[i] = (float)(i % 3) - 1;
    }
    u->ppo_loss = (struct hd_ppo_loss){.batch = b,
                                       .logits = actions,
                                       .dims = 1,
                                       .choices = {(int32_t)actions},
                                       .clip = 0.2f,
                                       .value_clip = true,
                                       .value_weight = 0.5f,
                                       .entropy_weight = 0.01f,
                                       .out = u->q,
                                       .logit_old = logit,
                                       .value_old = value,
                                       .advantage = u->advantage,
                                       .target = target,
                                       .action = action};
    return logit && value && u->advantage && target && action ? HD_OK : HD_ERR_NOMEM;
}

static int allocate(struct update *u)
{
    const int64_t n = hd_net_count_params(u->net), params = hd_net_get_params_bytes(u->net);
    u->obs = hd_alloc(u->rows * hd_net_get_obs_bytes(u->net), 1);
    u->params = hd_alloc(params, 1), u->target = hd_alloc(params, 1), u->grad = hd_alloc(n, 4);
    u->m = hd_alloc(n, 4), u->v = hd_alloc(n, 4);
    u->work = hd_alloc(hd_net_get_forward_bytes(u->net, u->rows, 1), 1);
    u->scratch = hd_alloc(hd_net_get_backward_bytes(u->net, u->batch, 1), 1);
    u->q = hd_alloc(u->rows * hd_net_count_outputs(u->net), 4);
    u->dq = hd_alloc(u->batch * hd_net_count_outputs(u->net), 4);
    u->adam = hd_adam_make(1e-6);
    if (!u->obs || !u->params || !u->target || !u->grad || !u->m || !u->v || !u->work ||
        !u->scratch || !u->q || !u->dq)
        return HD_ERR_NOMEM;
    return u->ppo ? allocate_ppo_loss(u) : allocate_dqn_loss(u);
}

static int fill(struct update *u)
{
    struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    HD_TRY(hd_net_init(u->net, &rng, u->params));
    memcpy(u->target, u->params, (size_t)hd_net_get_params_bytes(u->net));
    for (int64_t i = 0; i < u->rows * hd_net_count_obs(u->net); i++)
        if (hd_net_has_u8_obs(u->net))
            u->obs[i] = (char)hd_rng_draw_below(&rng, (uint32_t)i, 256);
        else
            ((float *)u->obs)[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    return HD_OK;
}

static void report(struct update *u, const char *name, void (*run)(void *arg))
{
    hd_part_report(name, 1e3 * hd_part_measure_seconds(run, u), "ms");
}

/* Memory is released by the end of the process. */
static int measure(int argc, char **argv)
{
    char name[32];
    struct update u = {.batch = hd_part_parse_number(argc, argv, 2, 64), .scale = 1};
    if (argc < 2 || u.batch == 0)
        return HD_ERR_INPUT;
    HD_TRY(hd_bench_net_create(argv[0], argv[1], &u.net));
    u.ppo = hd_net_get_heads(u.net) == HD_HEADS_ACTOR_CRITIC;
    u.rows = u.ppo ? u.batch : 2 * u.batch;
    HD_TRY(hd_net_prepare(u.net, u.rows, u.batch));
    HD_TRY(hd_net_prepare(u.net, u.batch, 0));
    HD_TRY(allocate(&u));
    HD_TRY(fill(&u));
    report(&u, NULL, update);
    if (hd_net_count_stages(u.net) == 1)
        return HD_OK;
    if (!u.ppo)
        report(&u, "target", target_forward);
    report(&u, "forward", forward);
    report(&u, "loss", loss);
    for (u.stage = 0; u.stage < hd_net_count_stages(u.net); u.stage++) {
        snprintf(name, sizeof name, "backward_%d", u.stage);
        report(&u, name, backward);
    }
    if (u.ppo)
        report(&u, "norm", norm);
    report(&u, "adam", step);
    return HD_OK;
}

const struct hd_bench_part hd_part_update = {
    HD_BENCH_NETS " f32|bf16 [BATCH]",
    "a whole update on the kernels alone, one thread, of DQN or PPO as the net is; then its parts",
    measure};
