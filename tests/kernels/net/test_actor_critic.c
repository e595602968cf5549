/* SPDX-License-Identifier: Apache-2.0 */
/* Nets with an actor and a critic: DI-engine's names and golden numbers (CFG-B, CFG-D), gradients
 * and normalised observations against a naive net in double. */
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/device.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/device_net.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/kernels/net/naive_net.h"

#include <string.h>

static const int64_t cartpole_shape[] = {4}, pong_shape[] = {4, 84, 84};
static const int64_t hidden[] = {64, 64, 128};

static struct hd_net *make_net_for(int dims, const int64_t *shape, bool u8, const int64_t *widths,
                                   int64_t n_hidden, int64_t actions, enum hd_precision precision,
                                   enum hd_precision on_gpu)
{
    const struct hd_net_fields fields = {.obs_dims = dims,
                                         .obs_shape = shape,
                                         .obs_u8 = u8,
                                         .actions = actions,
                                         .hidden = widths,
                                         .n_hidden = n_hidden,
                                         .heads = HD_HEADS_ACTOR_CRITIC,
                                         .precision = precision,
                                         .on_gpu = on_gpu};
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

static struct hd_net *make_net(int dims, const int64_t *shape, const int64_t *widths,
                               int64_t n_hidden, int64_t actions, enum hd_precision precision)
{
    return make_net_for(dims, shape, dims == 3, widths, n_hidden, actions, precision, HD_F32);
}

static struct hd_net *cartpole_net(void)
{
    return make_net(1, cartpole_shape, hidden, 3, 2, HD_F32);
}

static struct hd_net *pong_net(enum hd_precision precision)
{
    return make_net(3, pong_shape, hidden, 3, 6, precision);
}

/* -- DI-engine's numbers ----------------------------------------------------------------------- */

static void check_tensor_names(struct hd_net *net, struct golden golden, int64_t elements)
{
    int64_t offset = 0;
    ck_assert_int_eq(hd_net_count_tensors(net), golden_count(golden, "names"));
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        ck_assert_str_eq(tensor->name, golden_text(golden, "names/%d", t));
        ck_assert_int_eq(tensor->offset, offset);
        offset += tensor->count;
    }
    ck_assert_int_eq(offset, elements);
    ck_assert_int_eq(hd_net_get_heads(net), HD_HEADS_ACTOR_CRITIC);
    const int actions = golden_count(golden, "logit_before/0");
    ck_assert_int_eq(hd_net_count_actions(net), actions);
    ck_assert_int_eq(hd_net_count_outputs(net), actions + 1);
    hd_net_destroy(net);
}

TEST(names_and_shapes_are_di_engine_s)
{
    check_tensor_names(cartpole_net(), golden_open("ppo_cartpole"), 46211);
    check_tensor_names(pong_net(HD_F32), golden_open("ppo_pong"), 992775);
}

typedef void forward_fn(const struct hd_net *net, const float *params, const void *obs,
                        int64_t rows, float *q);

static void forward_here(const struct hd_net *net, const float *params, const void *obs,
                         int64_t rows, float *q)
{
    char *work = guarded(hd_net_get_forward_bytes(net, rows, 1));
    forward_rows(net, params, NULL, obs, rows, work, q);
    check_guard(work, hd_net_get_forward_bytes(net, rows, 1));
}

/* Checks observations 0 … batch of docs/di-engine.md 9.1 and their outputs. */
static void check_golden(struct hd_net *net, struct golden golden, double tolerance,
                         forward_fn *forward)
{
    const int batch = golden_count(golden, "value_before"),
              actions = golden_count(golden, "logit_before/0"), rows = batch + 1,
              outputs = actions + 1;
    const int64_t obs = hd_net_count_obs(net);
    float *params = guarded(hd_net_get_params_bytes(net)), *q = guarded(rows * outputs * 4);
    char *memory = guarded(rows * hd_net_get_obs_bytes(net));
    fill_params(net, 0, params);
    for (int b = 0; b < rows; b++)
        for (int64_t i = 0; i < obs; i++) {
            double u = fill(1000 + (uint64_t)b, (uint64_t)i);
            if (hd_net_has_u8_obs(net))
                ((uint8_t *)memory)[b * obs + i] = (uint8_t)(256 * u);
            else
                ((float *)memory)[b * obs + i] = (float)(2 * u - 1);
        }
    forward(net, params, memory, rows, q);
    for (int b = 0; b < rows; b++) {
        const float *row = q + b * outputs;
        const double value = b < batch ? golden_number(golden, "value_before/%d", b)
                                       : golden_number(golden, "value_next");
        CHECK_CLOSE(row[actions], value, 1.0, tolerance, "value");
        for (int i = 0; i < actions && b < batch; i++)
            CHECK_CLOSE(row[i], golden_number(golden, "logit_before/%d/%d", b, i), 1.0, tolerance,
                        "logit");
    }
    check_guard(params, hd_net_get_params_bytes(net));
    check_guard(q, rows * outputs * 4);
    hd_net_destroy(net);
}

TEST(values_and_logits_are_di_engine_s)
{
    /* Outputs are some hundredths to tenths; single precision sums up to 6,272 terms. */
    check_golden(cartpole_net(), golden_open("ppo_cartpole"), 1e-7, forward_here);
    check_golden(pong_net(HD_F32), golden_open("ppo_pong"), 3e-7, forward_here);
    /* bf16 has 8 bits: each product of a chain of five layers is off by up to 2^-8. */
    if (bf16_here())
        check_golden(pong_net(HD_BF16), golden_open("ppo_pong"), 1e-3, forward_here);
}

/* -- Against a naive net ----------------------------------------------------------------------- */

static const struct {
    int dims;
    int64_t shape[3], widths[4], n_hidden, actions;
} odd[] = {
    {1, {3}, {5, 7, 3}, 3, 2},
    {1, {17}, {33}, 1, 1},
    {1, {6}, {40, 20}, 2, 18},
    {3, {3, 36, 44}, {5, 7, 6}, 3, 3},       /* no size is a multiple of 16 */
    {3, {2, 37, 38}, {6, 3, 5, 41}, 4, 4},   /* does not fold */
    {3, {4, 52, 44}, {16, 32, 32, 64}, 4, 6} /* whole blocks all the way */
};
enum { N_ODD = sizeof odd / sizeof *odd, ROWS = 5 };

/* A training pass over random rows and next rows, normalised at random. */
struct pass {
    struct hd_net *net;
    int64_t obs, outputs;
    float *floats; /* [2 ROWS][obs] the observations as numbers */
    void *memory;  /* and as the net takes them */
    float *scale, *shift, *params, *q, *dq, *grad;
    void *work, *scratch;
    struct hd_obs_norm norm;
};

static struct pass make_pass(struct hd_net *net)
{
    struct pass p = {
        .net = net, .obs = hd_net_count_obs(net), .outputs = hd_net_count_outputs(net)};
    struct hd_rng rng = hd_rng_make(31, (uint64_t)p.obs, 0, 0, 0);
    p.floats = test_alloc(2 * ROWS * p.obs, 4);
    p.memory = guarded(2 * ROWS * hd_net_get_obs_bytes(net));
    p.scale = test_alloc(p.obs, 4);
    p.shift = test_alloc(p.obs, 4);
    p.params = guarded(hd_net_get_params_bytes(net));
    p.q = guarded(2 * ROWS * p.outputs * 4);
    p.dq = test_alloc(ROWS * p.outputs, 4);
    p.grad = guarded(hd_net_count_params(net) * 4);
    p.work = guarded(hd_net_get_forward_bytes(net, 2 * ROWS, 1));
    p.scratch = guarded(hd_net_get_backward_bytes(net, ROWS, 1));
    p.norm = (struct hd_obs_norm){.scale = p.scale, .shift = p.shift, .limit = 1.5f};
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    const float range = hd_net_has_u8_obs(net) ? 255 : 4;
    for (int64_t i = 0; i < 2 * ROWS * p.obs; i++) {
        p.floats[i] = range * (float)fill(40, (uint64_t)i);
        if (hd_net_has_u8_obs(net))
            p.floats[i] = ((uint8_t *)p.memory)[i] = (uint8_t)p.floats[i];
        else
            ((float *)p.memory)[i] = p.floats[i];
    }
    for (int64_t j = 0; j < p.obs; j++) { /* some are cut off on either side */
        p.scale[j] = (float)(4 * fill(41, (uint64_t)j)) / range;
        p.shift[j] = (float)(2 * fill(42, (uint64_t)j) - 3);
    }
    for (int64_t i = 0; i < ROWS * p.outputs; i++)
        p.dq[i] = (float)(fill(43, (uint64_t)i) - 0.5);
    return p;
}

static double normal(const struct pass *p, int64_t row, int64_t j)
{
    double y = (double)p->floats[row * p->obs + j] * p->scale[j] + p->shift[j];
    return fmin(fmax(y, -p->norm.limit), p->norm.limit);
}

/* Computes q of all observations, half of them as next ones. */
static void forward_pair(const struct pass *p, float *q)
{
    const struct hd_net_pass pass = {.params = p->params,
                                     .norm = &p->norm,
                                     .obs = p->memory,
                                     .next_obs = (const char *)p->memory +
                                                 ROWS * hd_net_get_obs_bytes(p->net),
                                     .rows = ROWS,
                                     .work = p->work};
    hd_net_forward(p->net, &pass, q);
}

static void check_guards(const struct pass *p)
{
    check_guard(p->memory, 2 * ROWS * hd_net_get_obs_bytes(p->net));
    check_guard(p->params, hd_net_get_params_bytes(p->net));
    check_guard(p->q, 2 * ROWS * p->outputs * 4);
    check_guard(p->grad, hd_net_count_params(p->net) * 4);
    check_guard(p->work, hd_net_get_forward_bytes(p->net, 2 * ROWS, 1));
    check_guard(p->scratch, hd_net_get_backward_bytes(p->net, ROWS, 1));
}

/* Checks p's outputs and gradients with net odd[i]; `rounded`: the naive net rounds as a GPU
 * does. */
static void check_against_naive(const struct pass *p, int i, bool rounded, double may_q,
                                double may_grad)
{
    struct naive_net naive;
    naive_create(&naive, p->net, odd[i].dims == 3 ? odd[i].shape : NULL, odd[i].widths,
                 odd[i].n_hidden, HD_HEADS_ACTOR_CRITIC, p->params);
    if (rounded)
        naive_round(&naive);
    double *q = test_alloc(2 * ROWS * p->outputs, sizeof *q);
    float *none = test_alloc(p->outputs, sizeof *none);
    for (int64_t r = 0; r < 2 * ROWS; r++) {
        for (int64_t j = 0; j < p->obs; j++)
            naive.input[j] = normal(p, r, j);
        naive_pass(&naive, r < ROWS ? p->dq + r * p->outputs : none, q + r * p->outputs);
    }
    double off = distance(p->q, q, 2 * ROWS * p->outputs);
    ck_assert_msg(off <= may_q, "net %d: outputs off by %.1e", i, off);
    for (int t = 0; t < hd_net_count_tensors(p->net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(p->net, t);
        float *row_major = test_alloc(tensor->count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(p->net, p->grad, t, row_major), HD_OK);
        off = distance(row_major, naive.grad[t], tensor->count);
        ck_assert_msg(off <= may_grad, "net %d: gradient of %s off by %.1e", i, tensor->name, off);
    }
    naive_destroy(&naive);
}

TEST(passes_are_those_of_a_naive_net, .runs = count_precisions() * N_ODD)
{
    const int i = _i % N_ODD;
    const enum hd_precision precision = _i < N_ODD ? HD_F32 : HD_BF16;
    struct pass p = make_pass(make_net(odd[i].dims, odd[i].shape, odd[i].widths, odd[i].n_hidden,
                                       odd[i].actions, precision));
    forward_pair(&p, p.q);
    for (int stage = 0; stage < hd_net_count_stages(p.net); stage++)
        hd_net_backward(p.net, p.params, ROWS, 2 * ROWS, p.work, p.dq, p.scratch, stage, p.grad);
    check_guards(&p);

    const double may_q = precision == HD_F32 ? 3e-6 : 2e-2;
    /* In bf16 a unit near zero may be active here and not in the naive net, and few rows average
     * little. */
    const double may_grad = precision == HD_F32 ? 2e-5 : 0.15;
    check_against_naive(&p, i, false, may_q, may_grad);
    hd_net_destroy(p.net);
}

/* Floats of the same numbers enter a net as bytes do, one pass or two. */
TEST(normalised_floats_are_normalised_bytes, .runs = count_precisions() * (N_ODD - 3))
{
    const int i = 3 + _i % (N_ODD - 3);
    struct pass p = make_pass(make_net(3, odd[i].shape, odd[i].widths, odd[i].n_hidden,
                                       odd[i].actions, _i < N_ODD - 3 ? HD_F32 : HD_BF16));
    const size_t bytes = (size_t)(2 * ROWS * p.outputs) * 4;
    float *q = test_alloc(2 * ROWS * p.outputs, 4);
    forward_rows(p.net, p.params, &p.norm, p.memory, 2 * ROWS, p.work, p.q);
    hd_net_forward(p.net,
                   &(struct hd_net_pass){.params = p.params,
                                         .norm = &p.norm,
                                         .obs = p.floats,
                                         .rows = 2 * ROWS,
                                         .work = p.work,
                                         .floats = true},
                   q);
    ck_assert_mem_eq(q, p.q, bytes);
    forward_pair(&p, q);
    ck_assert_mem_eq(q, p.q, bytes);
    hd_net_destroy(p.net);
}

/* -- On a GPU ---------------------------------------------------------------------------------- */

#if HD_CUDA

static void forward_there(const struct hd_net *net, const float *params, const void *obs,
                          int64_t rows, float *q)
{
    const struct device_pass device = device_pass(net, rows, 1);
    device_params(&device, params);
    device_forward(&device, NULL, obs, NULL, rows, q);
}

TEST(values_and_logits_on_a_gpu_are_di_engine_s, .cuda = true)
{
    check_golden(cartpole_net(), golden_open("ppo_cartpole"), 1e-7, forward_there);
    check_golden(pong_net(HD_F32), golden_open("ppo_pong"), 3e-7, forward_there);
    check_golden(make_net_for(3, pong_shape, true, hidden, 3, 6, HD_F32, HD_BF16),
                 golden_open("ppo_pong"), 1e-3, forward_there);
}

/* Normalised rows and next rows of dense nets and of convolutional ones, these of bytes or, every
 * other one, of floats. */
TEST(passes_on_a_gpu_are_those_of_a_naive_net, .runs = GPU_PRECISIONS * N_ODD, .cuda = true)
{
    const int i = _i % N_ODD;
    const enum hd_precision on_gpu = (enum hd_precision)(_i / N_ODD);
    struct pass p =
        make_pass(make_net_for(odd[i].dims, odd[i].shape, odd[i].dims == 3 && i % 2 == 0,
                               odd[i].widths, odd[i].n_hidden, odd[i].actions, HD_F32, on_gpu));
    const char *next = (const char *)p.memory + ROWS * hd_net_get_obs_bytes(p.net);
    const struct device_pass device = device_pass(p.net, 2 * ROWS, ROWS);
    device_params(&device, p.params);
    device_forward(&device, &p.norm, p.memory, next, 2 * ROWS, p.q);
    device_backward(&device, ROWS, 2 * ROWS, p.dq, p.grad);
    check_padding(p.net, p.grad);
    check_against_naive(&p, i, on_gpu == HD_BF16, device_off_by[on_gpu].q,
                        device_off_by[on_gpu].grad);
    hd_net_destroy(p.net);
}

#endif
