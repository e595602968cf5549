/* SPDX-License-Identifier: Apache-2.0 */
/* A whole DQN update on the kernels alone: obs and next_obs forward, target forward, loss,
 * backward, Adam. */
#include "bench/parts/parts.h"
#include "kernels/adam.h"
#include "kernels/dqn_loss.h"
#include "kernels/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

struct update {
    struct hd_net *net;
    int64_t batch, t;
    float *obs; /* obs rows, then next_obs rows */
    float *params, *target, *grad, *m, *v;
    void *work, *target_work, *scratch;
    float *q, *next, *dq;
    struct hd_dqn_loss loss;
    struct hd_adam adam;
};

static void update(void *arg)
{
    struct update *u = arg;
    const float *next_obs = u->obs + u->batch * hd_net_obs(u->net);
    struct hd_dqn_sums sums;
    hd_net_forward(u->net, u->params, u->obs, 2 * u->batch, u->work, u->q);
    hd_net_forward(u->net, u->target, next_obs, u->batch, u->target_work, u->next);
    hd_dqn_loss(&u->loss, u->dq, NULL, &sums);
    hd_net_backward(u->net, u->params, u->batch, 2 * u->batch, u->work, u->dq, u->scratch, 0,
                    u->grad);
    hd_adam_step(&u->adam, ++u->t, hd_net_elements(u->net), u->grad, 1, u->m, u->v, u->params);
}

static int allocate(struct update *u)
{
    int64_t n = hd_net_elements(u->net), b = u->batch, actions = hd_net_actions(u->net);
    float *reward = hd_alloc(b, 4), *done = hd_alloc(b, 4);
    int32_t *action = hd_alloc(b, 4);
    u->obs = hd_alloc(2 * b * hd_net_obs(u->net), 4);
    u->params = hd_alloc(n, 4), u->target = hd_alloc(n, 4), u->grad = hd_alloc(n, 4);
    u->m = hd_alloc(n, 4), u->v = hd_alloc(n, 4);
    u->work = hd_alloc(hd_net_forward_bytes(u->net, 2 * b), 1);
    u->target_work = hd_alloc(hd_net_forward_bytes(u->net, b), 1);
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
                    u->m && u->v && u->work && u->target_work && u->scratch && u->q && u->next &&
                    u->dq;
    return complete ? HD_OK : HD_ERR_NOMEM;
}

static void fill(struct update *u)
{
    struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    hd_net_init(u->net, &rng, u->params);
    memcpy(u->target, u->params, (size_t)hd_net_elements(u->net) * sizeof *u->target);
    for (int64_t i = 0; i < 2 * u->batch * hd_net_obs(u->net); i++)
        u->obs[i] = (float)hd_rng_uniform(&rng, (uint32_t)i);
}

/* The memory is the process's until it ends. */
static int measure(int argc, char **argv)
{
    static const int64_t cartpole[] = {128, 128, 64};
    static const int64_t four = 4;
    const struct hd_net_fields fields = {.obs_dims = 1,
                                         .obs_shape = &four,
                                         .actions = 2,
                                         .hidden = cartpole,
                                         .n_hidden = 3,
                                         .dueling = true};
    struct update u = {.batch = hd_part_number(argc, argv, 2, 64)};
    if (argc < 2 || strcmp(argv[0], "cartpole") != 0 || strcmp(argv[1], "f32") != 0 || u.batch == 0)
        return HD_ERR_INPUT;
    HD_TRY(hd_net_create(&fields, &u.net));
    HD_TRY(allocate(&u));
    fill(&u);
    hd_part_report(NULL, 1e3 * hd_part_seconds(update, &u), "ms");
    return HD_OK;
}

const struct hd_part hd_part_update = {
    "cartpole f32 [BATCH]", "a whole DQN update on the kernels alone, one thread", measure};
