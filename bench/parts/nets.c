/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/parts/nets.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

static const struct {
    const char *name;
    int dims;
    int64_t shape[3], actions, hidden[4], n_hidden;
    enum hd_heads heads;
} nets[] = {
    {"cartpole", 1, {4}, 2, {128, 128, 64}, 3, HD_HEADS_DUELING},
    {"pong", 3, {4, 84, 84}, 6, {128, 128, 512}, 3, HD_HEADS_DUELING},
    {"nature", 3, {4, 84, 84}, 6, {32, 64, 64, 512}, 4, HD_HEADS_Q},
    {"ppo", 3, {4, 84, 84}, 6, {64, 64, 128}, 3, HD_HEADS_ACTOR_CRITIC},
    {"ppo_fast", 3, {4, 84, 84}, 6, {16, 32, 32, 256}, 4, HD_HEADS_ACTOR_CRITIC},
    {"fast", 3, {4, 84, 84}, 6, {16, 32, 32, 256}, 4, HD_HEADS_DUELING},
};

/* -- Lists of layers --------------------------------------------------------------------------- */

#define L(name, ...)                                                                               \
    {                                                                                              \
        .type = &hd_layer_##name, .fields = {__VA_ARGS__}, .module = #name                         \
    }
#define RESIDUAL(channels)                                                                         \
    {.type = &hd_layer_residual, .body = 4}, L(relu), L(conv, channels, 3, 1, 1), L(relu),         \
        L(conv, channels, 3, 1, 1)
#define IMPALA_BLOCK(channels)                                                                     \
    L(conv, channels, 3, 1, 1), L(max_pool, 3, 2, 1), RESIDUAL(channels), RESIDUAL(channels)
#define HEADS L(dense, 1), L(dense, ACTIONS)

enum { ACTIONS = 6, MAX_LAYERS = 42 };

/* Each ends in a critic and an actor. */
static const struct {
    const char *name;
    int dims;
    int64_t shape[3], trunk;
    struct hd_layer layers[MAX_LAYERS];
} lists[] = {
    {"impala",
     3,
     {4, 84, 84},
     40,
     {IMPALA_BLOCK(16), IMPALA_BLOCK(32), IMPALA_BLOCK(32), L(relu), L(flatten), L(dense, 256),
      L(relu), HEADS}},
    {"gru", 1, {128}, 1, {L(gru, 128), HEADS}},
    {"lstm", 1, {128}, 1, {L(lstm, 128), HEADS}},
    {"mlp_64", 1, {16}, 4, {L(dense, 64), L(tanh), L(dense, 64), L(tanh), HEADS}},
    {"mlp_256", 1, {16}, 4, {L(dense, 256), L(relu), L(dense, 256), L(relu), HEADS}},
    {"norm_256",
     1,
     {16},
     6,
     {L(dense, 256), L(layer_norm), L(relu), L(dense, 256), L(layer_norm), L(relu), HEADS}},
};

static int make_list(const char *name, enum hd_precision precision, enum hd_precision on_gpu,
                     struct hd_net **net_p)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(lists[i].name, name) == 0) {
            const struct hd_net_fields fields = {
                .obs_dims = lists[i].dims,
                .obs_shape = lists[i].shape,
                .obs_u8 = lists[i].dims == 3,
                .actions = ACTIONS,
                .heads = HD_HEADS_ACTOR_CRITIC,
                .layers = lists[i].layers,
                .trunk = lists[i].trunk,
                .streams = {{HD_OUTPUT_VALUE, 1}, {HD_OUTPUT_ACTIONS, 1}},
                .n_streams = 2,
                .precision = precision,
                .on_gpu = on_gpu};
            return hd_net_create(&fields, net_p);
        }
    return HD_ERR_INPUT;
}

static int make(const char *name, enum hd_precision precision, enum hd_precision on_gpu,
                struct hd_net **net_p)
{
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        if (strcmp(nets[i].name, name) == 0) {
            const struct hd_net_fields fields = {.obs_dims = nets[i].dims,
                                                 .obs_shape = nets[i].shape,
                                                 .obs_u8 = nets[i].dims == 3,
                                                 .actions = nets[i].actions,
                                                 .hidden = nets[i].hidden,
                                                 .n_hidden = nets[i].n_hidden,
                                                 .heads = nets[i].heads,
                                                 .precision = precision,
                                                 .on_gpu = on_gpu};
            return hd_net_create(&fields, net_p);
        }
    return make_list(name, precision, on_gpu, net_p);
}

int hd_bench_net_create(const char *name, const char *precision, struct hd_net **net_p)
{
    const bool bf16 = strcmp(precision, "bf16") == 0;
    if (!bf16 && strcmp(precision, "f32") != 0)
        return HD_ERR_INPUT;
    return make(name, bf16 ? HD_BF16 : HD_F32, HD_F32, net_p);
}

int hd_bench_net_create_for_gpu(const char *name, const char *precision, struct hd_net **net_p)
{
    static const char *const names[] = {[HD_F32] = "f32", [HD_BF16] = "bf16", [HD_TF32] = "tf32"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(precision, names[i]) == 0)
            return make(name, HD_F32, (enum hd_precision)i, net_p);
    return HD_ERR_INPUT;
}

/* -- Passes ------------------------------------------------------------------------------------ */

static int allocate(struct hd_bench_passes *p)
{
    const struct hd_net *net = p->net;
    const int64_t rows = p->rows, steps = p->sequences.steps;
    const int64_t outputs = rows * hd_net_count_outputs(net);
    const int64_t states = rows / steps * hd_net_count_state(net);
    float *state = hd_alloc(states, 4);
    p->params = hd_alloc(hd_net_get_params_bytes(net), 1);
    p->obs = hd_alloc(rows * hd_net_get_obs_bytes(net), 1);
    p->work = hd_alloc(hd_net_get_forward_bytes(net, rows, steps), 1);
    p->scratch = hd_alloc(hd_net_get_backward_bytes(net, rows, steps), 1);
    p->q = hd_alloc(outputs, 4), p->dq = hd_alloc(outputs, 4);
    p->grad = hd_alloc(hd_net_count_params(net), 4);
    p->sequences.state = p->sequences.next_state = state;
    return state && p->params && p->obs && p->work && p->scratch && p->q && p->dq && p->grad
               ? HD_OK
               : HD_ERR_NOMEM;
}

static int fill(const struct hd_bench_passes *p)
{
    struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    HD_TRY(hd_net_init(p->net, &rng, p->params));
    for (int64_t i = 0; i < p->rows * hd_net_count_obs(p->net); i++)
        if (hd_net_has_u8_obs(p->net))
            ((uint8_t *)p->obs)[i] = (uint8_t)hd_rng_draw_below(&rng, (uint32_t)i, 256);
        else
            ((float *)p->obs)[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    for (int64_t i = 0; i < p->rows * hd_net_count_outputs(p->net); i++)
        p->dq[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5f;
    return HD_OK;
}

int hd_bench_passes_make(const struct hd_net *net, int64_t rows, int64_t steps, bool backward,
                         struct hd_bench_passes *passes_p)
{
    *passes_p = (struct hd_bench_passes){.net = net, .rows = rows, .sequences = {.steps = steps}};
    HD_TRY(hd_net_prepare(net, rows, backward ? rows : 0));
    HD_TRY(allocate(passes_p));
    return fill(passes_p);
}

void hd_bench_passes_forward(const struct hd_bench_passes *p)
{
    const struct hd_net_pass pass = {.params = p->params,
                                     .obs = p->obs,
                                     .rows = p->rows,
                                     .sequences = &p->sequences,
                                     .work = p->work};
    hd_net_forward(p->net, &pass, p->q);
}

void hd_bench_passes_backward(const struct hd_bench_passes *p)
{
    for (int stage = 0; stage < hd_net_count_stages(p->net); stage++)
        hd_net_backward(p->net, p->params, p->rows, p->rows, p->work, p->dq, p->scratch, stage,
                        p->grad);
}
