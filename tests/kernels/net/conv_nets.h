/* SPDX-License-Identifier: Apache-2.0 */
/* The convolutional nets of the tests, and the memory of their training passes. One thread at a
 * time. */
#pragma once

#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"

static const int64_t pong_shape[] = {4, 84, 84}, pong_hidden[] = {128, 128, 512};

static inline struct hd_net *make_net_for(const int64_t *shape, const int64_t *hidden,
                                          int64_t n_hidden, int64_t actions, enum hd_heads heads,
                                          enum hd_precision precision, enum hd_precision on_gpu)
{
    const struct hd_net_fields fields = {.obs_dims = 3,
                                         .obs_shape = shape,
                                         .obs_u8 = true,
                                         .actions = actions,
                                         .hidden = hidden,
                                         .n_hidden = n_hidden,
                                         .heads = heads,
                                         .precision = precision,
                                         .on_gpu = on_gpu};
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

static inline struct hd_net *make_net(const int64_t *shape, const int64_t *hidden, int64_t n_hidden,
                                      int64_t actions, enum hd_heads heads,
                                      enum hd_precision precision)
{
    return make_net_for(shape, hidden, n_hidden, actions, heads, precision, HD_F32);
}

static inline struct hd_net *pong_net(enum hd_precision precision)
{
    return make_net(pong_shape, pong_hidden, 3, 6, HD_HEADS_DUELING, precision);
}

/* The memory of a training pass over `rows` rows, with random obs and next_obs. */
struct pass {
    const struct hd_net *net;
    int64_t rows;
    uint8_t *obs;
    float *q, *dq, *grad;
    void *params, *work, *scratch;
};

static inline struct pass make_pass(const struct hd_net *net, int64_t rows)
{
    struct pass p = {.net = net, .rows = rows};
    int64_t n = 2 * rows * hd_net_get_obs_bytes(net),
            outputs = 2 * rows * hd_net_count_outputs(net);
    p.obs = guarded(n);
    p.q = guarded(outputs * 4);
    p.dq = guarded(outputs * 4);
    p.grad = guarded(hd_net_count_params(net) * 4);
    p.params = guarded(hd_net_get_params_bytes(net));
    p.work = guarded(hd_net_get_forward_bytes(net, 2 * rows, 1));
    p.scratch = guarded(hd_net_get_backward_bytes(net, rows, 1));
    for (int64_t i = 0; i < n; i++)
        p.obs[i] = (uint8_t)(256 * fill(7, (uint64_t)i));
    for (int64_t i = 0; i < outputs; i++)
        p.dq[i] = (float)(fill(8, (uint64_t)i) - 0.5);
    return p;
}

static inline void check_guards(const struct pass *p)
{
    int64_t outputs = 2 * p->rows * hd_net_count_outputs(p->net);
    check_guard(p->obs, 2 * p->rows * hd_net_get_obs_bytes(p->net));
    check_guard(p->q, outputs * 4);
    check_guard(p->dq, outputs * 4);
    check_guard(p->grad, hd_net_count_params(p->net) * 4);
    check_guard(p->params, hd_net_get_params_bytes(p->net));
    check_guard(p->work, hd_net_get_forward_bytes(p->net, 2 * p->rows, 1));
    check_guard(p->scratch, hd_net_get_backward_bytes(p->net, p->rows, 1));
}

static const struct {
    int64_t shape[3], hidden[4], n_hidden, actions;
    enum hd_heads heads;
} odd[] = {
    {{3, 36, 44}, {5, 7, 6, 0}, 3, 3, HD_HEADS_DUELING}, /* folds; no size is a multiple of 16 */
    {{2, 37, 38}, {6, 3, 5, 9}, 4, 4, HD_HEADS_Q},       /* does not fold */
    {{1, 44, 36}, {16, 32, 16, 33}, 4, 2, HD_HEADS_DUELING}, /* one frame, whole blocks, then not */
    {{4, 52, 44}, {32, 48, 64, 64}, 4, 6, HD_HEADS_DUELING}, /* whole blocks all the way */
    {{5, 36, 36}, {17, 16, 31, 16}, 4, 18, HD_HEADS_Q},      /* off by one from whole blocks */
    {{2, 44, 52},
     {64, 64, 64, 32},
     4,
     5,
     HD_HEADS_DUELING}, /* channels enough for every kernel of ours */
    {{3, 44, 36}, {7, 18, 9, 30}, 4, 3, HD_HEADS_ACTOR_CRITIC}, /* padding alone in a tile */
    {{4, 52, 44}, {32, 64, 64, 32}, 4, 6, HD_HEADS_ACTOR_CRITIC},
};
enum { N_ODD = sizeof odd / sizeof *odd };
