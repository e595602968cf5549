/* SPDX-License-Identifier: Apache-2.0 */
/* A whole DQN update on the kernels alone: obs and next_obs forward, target forward, loss,
 * backward, Adam; then each of these on its own. */
#include "bench/parts/nets.h"
#include "bench/parts/parts.h"
#include "kernels/adam.h"
#include "kernels/dqn_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

struct update {
    struct hd_net *net;
    int64_t batch, t;
    int stage; /* of backward */
    char *obs; /* obs rows, then next_obs rows */
    void *params, *target;
    float *grad, *m, *v;
    void *work, *scratch;
    float *q, *next, *dq;
    struct hd_dqn_loss loss;
    struct hd_adam adam;
};

static void target_forward(void *arg)
{
    const struct update *u = arg;
    const char *next_obs = u->obs + u->batch * hd_net_obs_bytes(u->net);
    hd_net_forward(u->net, u->target, NULL, next_obs, u->batch, u->work, u->next);
}

static void forward(void *arg)
{
    const struct update *u = arg;
    const char *next_obs = u->obs + u->batch * hd_net_obs_bytes(u->net);
    hd_net_forward_pair(u->net, u->params, NULL, u->obs, next_obs, u->batch, u->work, u->q);
}

static void loss(void *arg)
{
    struct hd_dqn_sums sums;
    const struct update *u = arg;
    hd_dqn_loss(&u->loss, u->dq, NULL, &sums);
}

static void backward(void *arg)
{
    const struct update *u = arg;
    hd_net_backward(u->net, u->params, u->batch, 2 * u->batch, u->work, u->dq, u->scratch, u->stage,
                    u->grad);
}

static void step(void *arg)
{
    struct update *u = arg;
    const int64_t n = hd_net_elements(u->net);
    u->t++;
    for (int64_t at = 0; at < n; at += HD_BLOCK) {
        int64_t end = n - at < HD_BLOCK ? n : at + HD_BLOCK;
        hd_adam_step(&u->adam, u->t, end - at, u->grad + at, (float)u->batch, 1, u->m + at,
                     u->v + at, (float *)u->params + at);
        hd_net_refresh(u->net, u->params, at, end);
    }
}

static void update(void *arg)
{
    struct update *u = arg;
    target_forward(u);
    forward(u);
    loss(u);
    for (u->stage = 0; u->stage < hd_net_stages(u->net); u->stage++)
        backward(u);
    step(u);
}

static int allocate(struct update *u)
{
    int64_t n = hd_net_elements(u->net), b = u->batch, actions = hd_net_actions(u->net);
    int64_t params = hd_net_params_bytes(u->net);
    float *reward = hd_alloc(b, 4), *done = hd_alloc(b, 4);
    int32_t *action = hd_alloc(b, 4);
    u->obs = hd_alloc(2 * b * hd_net_obs_bytes(u->net), 1);
    u->params = hd_alloc(params, 1), u->target = hd_alloc(params, 1), u->grad = hd_alloc(n, 4);
    u->m = hd_alloc(n, 4), u->v = hd_alloc(n, 4);
    u->work = hd_alloc(hd_net_forward_bytes(u->net, 2 * b), 1);
    u->scratch = hd_alloc(hd_net_backward_bytes(u->net, b), 1);
    u->q = hd_alloc(2 * b * actions, 4), u->next = hd_alloc(b * actions, 4);
    u->dq = hd_alloc(b * actions, 4);
    u->loss = (struct hd_dqn_loss){.batch = b,
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
    u->adam = hd_adam_default(1e-6);
    bool complete = reward && done && action && u->obs && u->params && u->target && u->grad &&
                    u->m && u->v && u->work && u->scratch && u->q && u->next && u->dq;
    return complete ? HD_OK : HD_ERR_NOMEM;
}

static int fill(struct update *u)
{
    struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    HD_TRY(hd_net_init(u->net, &rng, u->params));
    memcpy(u->target, u->params, (size_t)hd_net_params_bytes(u->net));
    for (int64_t i = 0; i < 2 * u->batch * hd_net_obs(u->net); i++)
        if (hd_net_obs_u8(u->net))
            u->obs[i] = (char)hd_rng_below(&rng, (uint32_t)i, 256);
        else
            ((float *)u->obs)[i] = (float)hd_rng_uniform(&rng, (uint32_t)i);
    return HD_OK;
}

static void report(struct update *u, const char *name, void (*run)(void *arg))
{
    hd_part_report(name, 1e3 * hd_part_seconds(run, u), "ms");
}

/* The memory is the process's until it ends. */
static int measure(int argc, char **argv)
{
    char name[32];
    struct update u = {.batch = hd_part_number(argc, argv, 2, 64)};
    if (argc < 2 || u.batch == 0)
        return HD_ERR_INPUT;
    HD_TRY(hd_bench_net(argv[0], argv[1], &u.net));
    HD_TRY(hd_net_prepare(u.net, 2 * u.batch, u.batch));
    HD_TRY(hd_net_prepare(u.net, u.batch, 0));
    HD_TRY(allocate(&u));
    HD_TRY(fill(&u));
    report(&u, NULL, update);
    if (hd_net_stages(u.net) == 1)
        return HD_OK;
    report(&u, "target", target_forward);
    report(&u, "forward", forward);
    for (u.stage = 0; u.stage < hd_net_stages(u.net); u.stage++) {
        snprintf(name, sizeof name, "backward_%d", u.stage);
        report(&u, name, backward);
    }
    report(&u, "adam", step);
    return HD_OK;
}

const struct hd_part hd_part_update = {
    HD_BENCH_NETS " f32|bf16 [BATCH]",
    "a whole DQN update on the kernels alone, one thread; then its parts", measure};
