/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the updates of update.c on a GPU, on the kernels alone, with gradients in GPU order:
 * launched as CUDA graphs and, for comparison, launch by launch; then each part as a graph. */
#include "bench/parts/nets.h"
#include "bench/parts/on_gpu.h"
#include "bench/parts/parts.h"
#include "kernels/learn/adam.h"
#include "kernels/learn/grad_norm.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "kernels/learn/losses/ppo_loss.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if HD_CUDA
#include <cuda_runtime_api.h>

struct update {
    struct hd_net *net;
    bool ppo;
    int64_t batch, rows,
        n; /* rows of a forward pass: obs, and in DQN also next_obs; floats of the net */
    void *stream;
    char *obs; /* obs rows, then next_obs rows */
    void *params, *target, *work, *scratch;
    struct hd_tiles tiles; /* of params */
    float *grad, *m, *v, *q, *next, *dq, *advantage, *count, *adam_scratch;
    double *blocks;
    struct hd_scalar_slot norm; /* of the gradient, shared with the host */
    void *sums;
    int64_t *updates, *used;
    struct hd_dqn_loss dqn_loss;
    struct hd_ppo_loss ppo_loss;
    struct hd_adam adam;
};

static int target_forward(const struct update *u)
{
    const char *next_obs = u->obs + u->batch * hd_net_get_obs_bytes(u->net);
    return hd_net_forward_cuda(u->net, u->target, NULL, next_obs, u->batch, u->work, u->next,
                               u->stream);
}

static int forward(const struct update *u)
{
    return hd_net_forward_cuda(u->net, u->params, NULL, u->obs, u->rows, u->work, u->q, u->stream);
}

static int loss(const struct update *u)
{
    if (!u->ppo)
        return hd_dqn_loss_compute_cuda(&u->dqn_loss, u->used, u->dq, NULL, u->sums, u->stream);
    HD_TRY(hd_standardise_cuda(u->advantage, u->used, u->stream));
    return hd_ppo_loss_compute_cuda(&u->ppo_loss, u->used, u->dq, u->sums, u->stream);
}

static int backward(const struct update *u)
{
    return hd_net_backward_cuda(u->net, u->params, u->batch, u->rows, u->work, u->dq, u->scratch, 0,
                                hd_net_count_stages(u->net), u->grad, true, u->stream);
}

static struct hd_partials make_partials(const struct update *u)
{
    return (struct hd_partials){.floats = u->grad, .counts = u->count, .n = 1};
}

static int norm(const struct update *u)
{
    const struct hd_partials grad = make_partials(u);
    HD_TRY(
        hd_grad_norm_sum_squares_cuda(&grad, u->tiles.gradient_at, 0, u->n, u->blocks, u->stream));
    return hd_grad_norm_push_cuda(u->blocks, (u->n + HD_BLOCK - 1) / HD_BLOCK, u->norm, u->stream);
}

static int step(const struct update *u)
{
    const struct hd_partials grad = make_partials(u);
    const struct hd_adam_inputs inputs = {.norm = u->ppo ? u->norm.entry : NULL, .longest = 0.5};
    return hd_adam_step_cuda(&u->adam, &grad, true, &u->tiles, 0, u->n, &inputs, u->updates,
                             u->adam_scratch, u->m, u->v, u->stream);
}

static int learn(const struct update *u)
{
    if (!u->ppo)
        HD_TRY(target_forward(u));
    HD_TRY(forward(u));
    HD_TRY(loss(u));
    HD_TRY(backward(u));
    if (u->ppo)
        HD_TRY(norm(u));
    return step(u);
}

/* -- Memory, released by the end of the process ------------------------------------------------ */

static int make_loss(struct update *u)
{
    const int64_t b = u->batch, actions = hd_net_count_actions(u->net);
    float *host = hd_alloc(b, 4), *reward = hd_part_make_on_gpu(b * 4),
          *other = hd_part_make_on_gpu(b * 4);
    float *logit = hd_part_make_on_gpu(b * actions * 4), *value = hd_part_make_on_gpu(b * 4);
    int32_t *action = hd_part_make_on_gpu(b * 4);
    if (!host || !reward || !other || !logit || !value || !action)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < b; i++)
        host[i] = (float)(i % 3) - 1;
    HD_TRY(hd_part_put_on_gpu(reward, host, b * 4));
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
                                       .done = other};
    u->advantage = hd_part_make_on_gpu(b * 4);
    HD_TRY(hd_part_put_on_gpu(u->advantage, host, b * 4));
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
                                       .target = reward,
                                       .action = (const void *)action};
    hd_free(host);
    return HD_OK;
}

static int allocate(struct update *u)
{
    const int64_t outputs = hd_net_count_outputs(u->net), n = u->n;
    u->obs = hd_part_make_on_gpu(u->rows * hd_net_get_obs_bytes(u->net));
    u->params = hd_part_make_on_gpu(hd_net_get_device_bytes(u->net));
    u->target = hd_part_make_on_gpu(hd_net_get_device_bytes(u->net));
    u->work = hd_part_make_on_gpu(hd_net_get_forward_cuda_bytes(u->net, u->rows));
    u->scratch = hd_part_make_on_gpu(hd_net_get_backward_cuda_bytes(u->net, u->batch));
    u->grad = hd_part_make_on_gpu(hd_net_count_gpu_gradient(u->net) * 4);
    u->m = hd_part_make_on_gpu(n * 4), u->v = hd_part_make_on_gpu(n * 4);
    u->q = hd_part_make_on_gpu(u->rows * outputs * 4),
    u->dq = hd_part_make_on_gpu(u->batch * outputs * 4);
    u->next = hd_part_make_on_gpu(u->batch * outputs * 4);
    u->count = hd_part_make_on_gpu(4), u->adam_scratch = hd_part_make_on_gpu(HD_ADAM_SCRATCH * 4);
    u->updates = hd_part_make_on_gpu(8), u->used = hd_part_make_on_gpu(8);
    u->blocks = hd_part_make_on_gpu((n / HD_BLOCK + 1) * 8);
    u->sums = hd_part_make_on_gpu(sizeof(struct hd_dqn_sums) + sizeof(struct hd_ppo_sums));
    if (!u->obs || !u->params || !u->target || !u->work || !u->scratch || !u->grad || !u->m ||
        !u->v || !u->q || !u->dq || !u->next || !u->count || !u->adam_scratch || !u->updates ||
        !u->used || !u->blocks || !u->sums ||
        cudaHostAlloc((void **)&u->norm.entry, sizeof *u->norm.entry, cudaHostAllocPortable) !=
            cudaSuccess ||
        cudaHostAlloc((void **)&u->norm.pushes, 8, cudaHostAllocPortable) != cudaSuccess)
        return hd_fail(HD_ERR_NOMEM, "the GPU has too little memory for this update");
    HD_TRY(hd_net_get_tiles(u->net, u->params, &u->tiles));
    return make_loss(u);
}

static int fill(struct update *u)
{
    const struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    const int64_t bytes = u->rows * hd_net_get_obs_bytes(u->net);
    const float count = (float)u->batch;
    char *obs = hd_alloc(bytes, 1);
    float *params = hd_alloc(hd_net_get_params_bytes(u->net), 1);
    if (!obs || !params)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < u->rows * hd_net_count_obs(u->net); i++)
        if (hd_net_has_u8_obs(u->net))
            obs[i] = (char)hd_rng_draw_below(&rng, (uint32_t)i, 256);
        else
            ((float *)obs)[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    HD_TRY(hd_net_init(u->net, &rng, params));
    HD_TRY(hd_part_put_on_gpu(u->obs, obs, bytes));
    HD_TRY(hd_part_put_on_gpu(u->params, params, u->n * 4));
    HD_TRY(hd_part_put_on_gpu(u->target, params, u->n * 4));
    HD_TRY(hd_part_put_on_gpu(u->count, &count, 4));
    HD_TRY(hd_part_put_on_gpu(u->used, &u->batch, 8));
    hd_free(obs);
    hd_free(params);
    HD_TRY(hd_net_refresh_cuda(u->net, u->target, 0, u->n, u->stream));
    return hd_net_refresh_cuda(u->net, u->params, 0, u->n, u->stream);
}

struct part {
    const struct update *update;
    int (*launch)(const struct update *u);
};

static int launch_part(const void *arg)
{
    const struct part *part = arg;
    return part->launch(part->update);
}

static int measure_part(const struct update *u, const char *name,
                        int (*launch)(const struct update *u), bool graphs)
{
    const struct part part = {u, launch};
    return hd_part_measure_on_gpu(name, launch_part, &part, graphs, u->stream);
}

static int measure_all(const struct update *u)
{
    HD_TRY(measure_part(u, NULL, learn, true));
    HD_TRY(measure_part(u, "launches", learn, false));
    if (!u->ppo)
        HD_TRY(measure_part(u, "target", target_forward, true));
    HD_TRY(measure_part(u, "forward", forward, true));
    HD_TRY(measure_part(u, "loss", loss, true));
    HD_TRY(measure_part(u, "backward", backward, true));
    if (u->ppo)
        HD_TRY(measure_part(u, "norm", norm, true));
    return measure_part(u, "adam", step, true);
}

static int measure(int argc, char **argv)
{
    struct update u = {.batch = hd_part_parse_number(argc, argv, 2, 64)};
    if (argc < 2 || u.batch == 0)
        return HD_ERR_INPUT;
    HD_TRY(hd_bench_net_create_for_gpu(argv[0], argv[1], &u.net));
    HD_TRY(hd_part_open_gpu(&u.stream));
    u.ppo = hd_net_get_heads(u.net) == HD_HEADS_ACTOR_CRITIC;
    u.rows = u.ppo ? u.batch : 2 * u.batch;
    u.n = hd_net_count_params(u.net);
    u.adam = hd_adam_make(1e-6);
    HD_TRY(hd_net_prepare_cuda(u.net, u.rows, u.batch));
    HD_TRY(hd_net_prepare_cuda(u.net, u.batch, 0));
    HD_TRY(allocate(&u));
    HD_TRY(fill(&u));
    return measure_all(&u);
}

#else

static int measure(int argc, char **argv)
{
    (void)argc, (void)argv;
    return hd_fail(HD_ERR_UNSUPPORTED, "this program was built without CUDA");
}

#endif

const struct hd_bench_part hd_part_update_gpu = {
    HD_BENCH_NETS " f32|tf32|bf16 [BATCH]",
    "a whole update on a GPU, as a CUDA graph and launch by launch; then its parts", measure};
