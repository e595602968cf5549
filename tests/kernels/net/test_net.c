/* SPDX-License-Identifier: Apache-2.0 */
/* Nets: names and shapes of DI-engine, its golden numbers for three whole updates, gradients
 * against differences, rows independent of their batch. */
#include "kernels/learn/adam.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"
#include "tests/kernels/net/device_net.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/kernels/net/naive_net.h"

#include <string.h>

enum { GOLDEN_BATCH = 4, GOLDEN_ACTIONS = 2, GOLDEN_STEPS = 3 };

static struct hd_net *make_net_for(int64_t obs, int64_t actions, const int64_t *hidden,
                                   int64_t n_hidden, enum hd_heads heads, enum hd_precision on_gpu)
{
    const struct hd_net_fields fields = {.obs_dims = 1,
                                         .obs_shape = &obs,
                                         .actions = actions,
                                         .hidden = hidden,
                                         .n_hidden = n_hidden,
                                         .heads = heads,
                                         .on_gpu = on_gpu};
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

static struct hd_net *make_net(int64_t obs, int64_t actions, const int64_t *hidden,
                               int64_t n_hidden, enum hd_heads heads)
{
    return make_net_for(obs, actions, hidden, n_hidden, heads, HD_F32);
}

static struct hd_net *cartpole_net(void)
{
    static const int64_t hidden[] = {128, 128, 64};
    return make_net(4, 2, hidden, 3, HD_HEADS_DUELING);
}

TEST(fill_is_the_spec_s)
{
    static const double first[] = {0.88331079, 0.56656152, 0.59118968};
    for (int j = 0; j < 3; j++)
        CHECK_CLOSE(fill(0, (uint64_t)j), first[j], 1.0, 1e-8, "U(0, j)");
    CHECK_CLOSE(fill(3, 0), 0.31124163, 1.0, 1e-8, "U(3, 0)");
    CHECK_CLOSE(fill(3, 1), 0.50402325, 1.0, 1e-8, "U(3, 1)");
}

TEST(names_and_shapes_are_di_engine_s)
{
    struct hd_net *net = cartpole_net();
    ck_assert_int_eq(hd_net_count_params(net), 33923);
    const struct golden golden = golden_open("dqn_cartpole");
    ck_assert_int_eq(hd_net_count_tensors(net), golden_count(golden, "names"));
    int64_t offset = 0;
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        ck_assert_str_eq(tensor->name, golden_text(golden, "names/%d", t));
        ck_assert_int_eq(tensor->offset, offset);
        ck_assert_int_eq(tensor->dims, 2 - t % 2);
        offset += tensor->count;
    }
    hd_net_destroy(net);
}

/* -- Golden updates ---------------------------------------------------------------------------- */

/* Checks with the list of.key. */
static void check_matrix(const float *found, struct golden of, const char *key, double tolerance)
{
    double wanted[GOLDEN_BATCH * GOLDEN_ACTIONS];
    golden_read(of, key, GOLDEN_BATCH * GOLDEN_ACTIONS, wanted);
    for (int i = 0; i < GOLDEN_BATCH * GOLDEN_ACTIONS; i++)
        CHECK_CLOSE(found[i], wanted[i], 1.0, tolerance, key);
}

struct update {
    struct hd_net *net;
    float obs[2 * GOLDEN_BATCH * 4], q[2 * GOLDEN_BATCH * 2], target_q[GOLDEN_BATCH * 2];
    float dq[GOLDEN_BATCH * 2], td2[GOLDEN_BATCH], reward[GOLDEN_BATCH], done[GOLDEN_BATCH];
    int32_t action[GOLDEN_BATCH];
    float *params, *target, *grad, *m, *v;
    void *work, *scratch;
    const struct passes *passes;
    void *device; /* the passes' own */
};

/* The net's forward and backward passes between arrays of the host, on a CPU or a GPU. */
struct passes {
    void (*forward)(struct update *u, const float *params, const float *obs, int64_t rows,
                    float *q);
    void (*backward)(struct update *u);
};

static void forward_here(struct update *u, const float *params, const float *obs, int64_t rows,
                         float *q)
{
    forward_rows(u->net, params, NULL, obs, rows, u->work, q);
}

static void backward_here(struct update *u)
{
    hd_net_backward(u->net, u->params, GOLDEN_BATCH, 2 * GOLDEN_BATCH, u->work, u->dq, u->scratch,
                    0, u->grad);
}

static const struct passes here = {forward_here, backward_here};

static struct update make_update(void)
{
    struct update u = {.net = cartpole_net(), .passes = &here};
    int64_t n = hd_net_count_params(u.net);
    u.params = test_alloc(n, sizeof(float));
    u.target = test_alloc(n, sizeof(float));
    u.grad = test_alloc(n, sizeof(float));
    u.m = test_alloc(n, sizeof(float));
    u.v = test_alloc(n, sizeof(float));
    u.work = test_alloc(hd_net_get_forward_bytes(u.net, 2 * GOLDEN_BATCH, 1), 1);
    u.scratch = test_alloc(hd_net_get_backward_bytes(u.net, GOLDEN_BATCH, 1), 1);
    fill_params(u.net, 0, u.params);
    fill_params(u.net, 500, u.target);
    for (int b = 0; b < GOLDEN_BATCH; b++) {
        for (int i = 0; i < 4; i++) {
            u.obs[b * 4 + i] = (float)(2 * fill(1000 + (uint64_t)b, (uint64_t)i) - 1);
            u.obs[(GOLDEN_BATCH + b) * 4 + i] =
                (float)(2 * fill(1010 + (uint64_t)b, (uint64_t)i) - 1);
        }
        u.action[b] = b % 2;
        u.reward[b] = 0.5f * (float)(b % 3) - 0.25f;
        u.done[b] = b == 2;
    }
    return u;
}

static void run_update(struct update *u, int t, struct golden step)
{
    int64_t n = hd_net_count_params(u->net);
    u->passes->forward(u, u->target, u->obs + GOLDEN_BATCH * 4, GOLDEN_BATCH, u->target_q);
    u->passes->forward(u, u->params, u->obs, 2 * GOLDEN_BATCH, u->q);
    const struct hd_dqn_loss loss = {.batch = GOLDEN_BATCH,
                                     .actions = 2,
                                     .nstep = 1,
                                     .gamma = 0.97f,
                                     .q = u->q,
                                     .online_next = u->q + GOLDEN_BATCH * 2,
                                     .target_next = u->target_q,
                                     .action = u->action,
                                     .reward = u->reward,
                                     .ld_reward = GOLDEN_BATCH,
                                     .done = u->done};
    struct hd_dqn_sums sums;
    hd_dqn_loss_compute(&loss, u->dq, u->td2, &sums);
    u->passes->backward(u);

    const double total_loss = golden_number(step, "total_loss");
    double squared_td[GOLDEN_BATCH];
    check_matrix(u->q, step, "q", 5e-7);
    check_matrix(u->q + GOLDEN_BATCH * 2, step, "online_next_q", 5e-7);
    check_matrix(u->target_q, step, "target_next_q", 5e-7);
    CHECK_CLOSE(sums.loss / GOLDEN_BATCH, total_loss, total_loss, 2e-6, "loss");
    CHECK_CLOSE(sums.q / (GOLDEN_BATCH * 2), golden_number(step, "q_value"), 1.0, 5e-7, "q_value");
    CHECK_CLOSE(sums.target_q / (GOLDEN_BATCH * 2), golden_number(step, "target_q_value"), 1.0,
                5e-7, "target_q_value");
    golden_read(step, "squared_td", GOLDEN_BATCH, squared_td);
    for (int b = 0; b < GOLDEN_BATCH; b++)
        CHECK_CLOSE(u->td2[b], squared_td[b], squared_td[b], 5e-6, "squared td");

    for (int64_t i = 0; i < n; i++)
        u->grad[i] /= GOLDEN_BATCH;
    struct hd_adam adam = hd_adam_make(1e-3);
    hd_adam_step(&adam, t, n, u->grad, 1, 1, u->m, u->v, u->params);
    check_tensors(u->net, u->grad, step, "grad", 2e-5);
    check_tensors(u->net, u->params, step, "params_after", 2e-6);
}

static void run_updates(struct update *u)
{
    const struct golden golden = golden_open("dqn_cartpole");
    ck_assert_int_eq(golden_count(golden, "steps"), GOLDEN_STEPS);
    for (int t = 1; t <= GOLDEN_STEPS; t++)
        run_update(u, t, golden_get(golden, "steps/%d", t - 1));
    u->passes->forward(u, u->params, u->obs, GOLDEN_BATCH, u->q);
    check_matrix(u->q, golden, "q_after", 2e-6);
}

TEST(three_updates_are_di_engine_s)
{
    struct update u = make_update();
    run_updates(&u);
    hd_net_destroy(u.net);
}

/* -- Properties -------------------------------------------------------------------------------- */

static const int64_t small[][3] = {{5, 7, 3}, {17, 3, 0}, {1, 1, 1}, {33, 0, 0}};

static struct hd_net *small_net(int i)
{
    int64_t n = 0;
    while (n < 3 && small[i % 4][n] > 0)
        n++;
    return make_net(3 + i, 1 + i % 5, small[i % 4], n, (enum hd_heads)(i / 4));
}

/* Returns the loss L = sum of c * q, for differences of L as exact as double precision allows. */
static double weighted_sum(const struct hd_net *net, const float *params, const float *obs,
                           int64_t batch, const float *c, void *work, float *q)
{
    double sum = 0;
    forward_rows(net, params, NULL, obs, batch, work, q);
    for (int64_t i = 0; i < batch * hd_net_count_outputs(net); i++)
        sum += (double)c[i] * q[i];
    return sum;
}

TEST(gradients_are_differences, .runs = 12)
{
    struct hd_net *net = small_net(_i);
    int64_t n = hd_net_count_params(net), batch = 1 + 4 * _i,
            outputs = batch * hd_net_count_outputs(net);
    struct hd_rng rng = hd_rng_make(9, (uint64_t)_i, 0, 0, 0);
    float *params = test_alloc(n, 4), *grad = test_alloc(n, 4), *q = test_alloc(outputs, 4);
    float *obs = test_alloc(batch * hd_net_count_obs(net), 4), *c = test_alloc(outputs, 4);
    void *work = test_alloc(hd_net_get_forward_bytes(net, batch, 1), 1);
    void *scratch = test_alloc(hd_net_get_backward_bytes(net, batch, 1), 1);
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int64_t i = 0; i < batch * hd_net_count_obs(net); i++)
        obs[i] = (float)(2 * hd_rng_draw_uniform(&rng, (uint32_t)(100000 + i)) - 1);
    for (int64_t i = 0; i < outputs; i++)
        c[i] = (float)(2 * hd_rng_draw_uniform(&rng, (uint32_t)(200000 + i)) - 1);
    weighted_sum(net, params, obs, batch, c, work, q);
    hd_net_backward(net, params, batch, batch, work, c, scratch, 0, grad);
    double largest = 0;
    int64_t off = 0;
    for (int64_t j = 0; j < n; j++)
        largest = fmax(largest, fabs(grad[j]));
    for (int64_t j = 0; j < n; j++) {
        const float step = 1.0f / 1024;
        float kept = params[j];
        params[j] = kept + step;
        double up = weighted_sum(net, params, obs, batch, c, work, q);
        params[j] = kept - step;
        double down = weighted_sum(net, params, obs, batch, c, work, q);
        params[j] = kept;
        double difference = (up - down) / (2 * step);
        off += fabs(difference - grad[j]) > 0.005 * largest;
    }
    /* A ReLU whose sign changes within the step bends a few differences. */
    ck_assert_msg(off <= n / 25, "net %d: %d of %d off", _i, (int)off, (int)n);
    hd_net_destroy(net);
}

TEST(a_row_does_not_depend_on_its_batch)
{
    struct hd_net *net = cartpole_net();
    enum { ALL = 130 };
    static const int64_t batches[] = {1, 3, 8, 64, 65, 128};
    struct hd_rng rng = hd_rng_make(4, 0, 0, 0, 0);
    float *params = test_alloc(hd_net_count_params(net), 4), *obs = test_alloc(ALL * 4, 4);
    float *q = test_alloc(ALL * 2, 4), *part = test_alloc(ALL * 2, 4);
    void *work = test_alloc(hd_net_get_forward_bytes(net, ALL, 1), 1);
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int i = 0; i < ALL * 4; i++)
        obs[i] = (float)(2 * hd_rng_draw_uniform(&rng, (uint32_t)(50000 + i)) - 1);
    forward_rows(net, params, NULL, obs, ALL, work, q);
    for (int k = 0; k < (int)(sizeof batches / sizeof *batches); k++)
        for (int64_t first = 0; first + batches[k] <= ALL; first += 11) {
            forward_rows(net, params, NULL, obs + first * 4, batches[k], work, part);
            ck_assert(memcmp(part, q + first * 2, (size_t)batches[k] * 2 * sizeof *q) == 0);
        }
    hd_net_destroy(net);
}

TEST(backward_of_the_first_rows_is_that_of_a_smaller_batch)
{
    struct update u = make_update();
    int64_t n = hd_net_count_params(u.net);
    float *other = test_alloc(n, 4);
    for (int i = 0; i < GOLDEN_BATCH * 2; i++)
        u.dq[i] = (float)(i - 3);
    forward_rows(u.net, u.params, NULL, u.obs, 2 * GOLDEN_BATCH, u.work, u.q);
    hd_net_backward(u.net, u.params, GOLDEN_BATCH, 2 * GOLDEN_BATCH, u.work, u.dq, u.scratch, 0,
                    u.grad);
    forward_rows(u.net, u.params, NULL, u.obs, GOLDEN_BATCH, u.work, u.q);
    hd_net_backward(u.net, u.params, GOLDEN_BATCH, GOLDEN_BATCH, u.work, u.dq, u.scratch, 0, other);
    ck_assert(memcmp(u.grad, other, (size_t)n * sizeof *other) == 0);
    hd_net_destroy(u.net);
}

TEST(init_is_within_pytorch_s_bounds)
{
    struct hd_net *net = cartpole_net();
    struct hd_rng rng = hd_rng_make(1, 2, 0, 0, 0);
    float *params = test_alloc(hd_net_count_params(net), 4);
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        double bound = 1 / sqrt((double)tensor->fan_in), max = 0, sum = 0;
        for (int64_t j = 0; j < tensor->count; j++) {
            max = fmax(max, fabs(params[tensor->offset + j]));
            sum += params[tensor->offset + j];
        }
        ck_assert_double_le(max, bound * (1 + 1e-6));
        if (tensor->count >= 1000) {
            ck_assert_double_ge(max, 0.99 * bound);
            ck_assert_double_le(fabs(sum) / (double)tensor->count,
                                5 * bound / sqrt((double)tensor->count));
        }
    }
    hd_net_destroy(net);
}

/* -- On a GPU ---------------------------------------------------------------------------------- */

#if HD_CUDA

static void forward_there(struct update *u, const float *params, const float *obs, int64_t rows,
                          float *q)
{
    device_params(u->device, params);
    device_forward(u->device, NULL, obs, NULL, rows, q);
}

static void backward_there(struct update *u)
{
    device_backward(u->device, GOLDEN_BATCH, 2 * GOLDEN_BATCH, u->dq, u->grad);
}

TEST(three_updates_are_di_engine_s_on_a_gpu, .cuda = true)
{
    static const struct passes there = {forward_there, backward_there};
    struct update u = make_update();
    struct device_pass device = device_pass(u.net, 2 * GOLDEN_BATCH, GOLDEN_BATCH);
    u.passes = &there;
    u.device = &device;
    run_updates(&u);
    hd_net_destroy(u.net);
}

enum { NETS = 12, PRECISIONS = 3 };

/* The odd nets are tested again, in pairs of rows, of which the first half goes backward. */
TEST(passes_on_a_gpu_are_those_of_a_naive_net, .runs = PRECISIONS * NETS, .cuda = true)
{
    enum { ROWS = 19 };
    const int i = _i % NETS;
    const enum hd_precision precision = (enum hd_precision)(_i / NETS);
    int64_t n_hidden = 0;
    while (n_hidden < 3 && small[i % 4][n_hidden] > 0)
        n_hidden++;
    struct hd_net *net =
        make_net_for(3 + i, 1 + i % 5, small[i % 4], n_hidden, (enum hd_heads)(i / 4), precision);
    const int64_t obs = hd_net_count_obs(net), outputs = hd_net_count_outputs(net),
                  n = hd_net_count_params(net);
    struct hd_rng rng = hd_rng_make(9, (uint64_t)i, 0, 0, 0);
    float *params = test_alloc(n, 4), *grad = test_alloc(n, 4), *x = test_alloc(2 * ROWS * obs, 4);
    float *q = test_alloc(2 * ROWS * outputs, 4), *dq = test_alloc(2 * ROWS * outputs, 4);
    double *wanted = test_alloc(2 * ROWS * outputs, sizeof *wanted);
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int64_t j = 0; j < 2 * ROWS * obs; j++)
        x[j] = (float)(2 * fill(3, (uint64_t)j) - 1);
    for (int64_t j = 0; j < ROWS * outputs; j++)
        dq[j] = (float)(fill(4, (uint64_t)j) - 0.5);
    struct device_pass device = device_pass(net, 2 * ROWS, ROWS);
    device_params(&device, params);
    device_forward(&device, NULL, x, x + ROWS * obs, 2 * ROWS, q);
    device_backward(&device, ROWS, 2 * ROWS, dq, grad);
    struct naive_net naive;
    naive_create(&naive, net, NULL, small[i % 4], n_hidden, (enum hd_heads)(i / 4), params);
    if (precision == HD_BF16)
        naive_round(&naive);
    for (int64_t r = 0; r < 2 * ROWS; r++) {
        for (int64_t j = 0; j < obs; j++)
            naive.input[j] = x[r * obs + j];
        naive_pass(&naive, dq + r * outputs, wanted + r * outputs);
    }
    double off = distance(q, wanted, 2 * ROWS * outputs);
    CHECK_RESIDUAL(off, device_off_by[precision].q, in_precision("q", "", precision));
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        off = distance(grad + tensor->offset, naive.grad[t], tensor->count);
        CHECK_RESIDUAL(off, device_off_by[precision].grad,
                       in_precision("gradient of ", tensor->name, precision));
    }
    naive_destroy(&naive);
    hd_net_destroy(net);
}

TEST(what_a_gpu_cannot_do_is_refused, .cuda = true)
{
    static const int64_t obs = 4, hidden[] = {8, 8};
    const struct hd_net_fields fields = {.obs_dims = 1,
                                         .obs_shape = &obs,
                                         .actions = 2,
                                         .hidden = hidden,
                                         .n_hidden = 2,
                                         .norm = HD_NORM_SYNC_BATCH};
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    ck_assert_int_eq(hd_net_prepare_cuda(net, 4, 0), HD_ERR_UNSUPPORTED);
    hd_net_destroy(net);
    net = cartpole_net();
    ck_assert_int_eq(hd_net_refresh_cuda(net, NULL, 0, 1, NULL), HD_ERR_INPUT);
    hd_net_destroy(net);
}

#endif
