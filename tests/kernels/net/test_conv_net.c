/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutional nets: DI-engine's golden numbers for three whole updates of CFG-A, a naive net in
 * double on odd sizes, and what the headers promise of the flat array, its shadows and the stages
 * of backward. */
#include "kernels/learn/adam.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "runtime/base/hash.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/device.h"
#include "tests/kernels/net/conv_nets.h"
#include "tests/kernels/net/device_net.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/kernels/net/naive_net.h"

#include <pthread.h>
#include <string.h>

enum { GOLDEN_BATCH = 4, GOLDEN_ACTIONS = 6, GOLDEN_STEPS = 3 };

static void forward(const struct pass *p)
{
    hd_net_forward(
        p->net,
        &(struct hd_net_pass){.params = p->params,
                              .obs = p->obs,
                              .next_obs = p->obs + p->rows * hd_net_get_obs_bytes(p->net),
                              .rows = p->rows,
                              .work = p->work},
        p->q);
}

static void backward(const struct pass *p)
{
    for (int stage = 0; stage < hd_net_count_stages(p->net); stage++)
        hd_net_backward(p->net, p->params, p->rows, 2 * p->rows, p->work, p->dq, p->scratch, stage,
                        p->grad);
}

/* -- Golden updates ---------------------------------------------------------------------------- */

/* Tolerances relative to what results are compared with. Single precision is limited by the order
 * of 25,088-term sums; Adam divides gradients by their own size, so the smallest ones, whose
 * rounding error is as large as they are, move parameters by whole steps of 1e-4. bf16 has 8 bits:
 * each product of a chain of five layers is off by up to 2^-8. */
struct tolerance {
    double q, loss, grad, params, q_after;
};
static const struct tolerance tolerances[] = {
    [HD_F32] = {2e-6, 2e-5, 5e-5, 2e-5, 1e-4}, [HD_BF16] = {4e-3, 2e-2, 3e-2, 2e-3, 5e-2}};

struct update {
    struct pass p;
    void *target, *target_work;
    float target_q[GOLDEN_BATCH * GOLDEN_ACTIONS], td2[GOLDEN_BATCH];
    float *m, *v;
    struct tolerance tolerance;
    const struct passes *passes;
    void *device; /* the passes' own */
};

/* The net's passes between arrays of the host, on a CPU or a GPU. */
struct passes {
    void (*of_target)(struct update *u, const void *params, const uint8_t *obs, void *work);
    void (*forward)(struct update *u);
    void (*backward)(struct update *u);
};

static void target_here(struct update *u, const void *params, const uint8_t *obs, void *work)
{
    forward_rows(u->p.net, params, NULL, obs, GOLDEN_BATCH, work, u->target_q);
}

static void forward_here(struct update *u)
{
    forward(&u->p);
}

static void backward_here(struct update *u)
{
    backward(&u->p);
}

static const struct passes here = {target_here, forward_here, backward_here};

static struct update make_update(const struct hd_net *net, enum hd_precision precision)
{
    struct update u = {
        .p = make_pass(net, GOLDEN_BATCH), .tolerance = tolerances[precision], .passes = &here};
    int64_t n = hd_net_count_params(net), bytes = hd_net_get_obs_bytes(net);
    u.target = guarded(hd_net_get_params_bytes(net));
    u.target_work = guarded(hd_net_get_forward_bytes(net, GOLDEN_BATCH, 1));
    u.m = test_alloc(n, 4);
    u.v = test_alloc(n, 4);
    fill_params(net, 0, u.p.params);
    fill_params(net, 500, u.target);
    for (int64_t b = 0; b < GOLDEN_BATCH; b++)
        for (int64_t i = 0; i < bytes; i++) {
            uint64_t k = 1000 + (uint64_t)b;
            u.p.obs[b * bytes + i] = (uint8_t)(256 * fill(k, (uint64_t)i));
            u.p.obs[(GOLDEN_BATCH + b) * bytes + i] = (uint8_t)(256 * fill(k + 10, (uint64_t)i));
        }
    return u;
}

/* Checks with the list of.key. */
static void check_matrix(const float *found, struct golden of, const char *key, double tolerance)
{
    double wanted[GOLDEN_BATCH * GOLDEN_ACTIONS];
    golden_read(of, key, GOLDEN_BATCH * GOLDEN_ACTIONS, wanted);
    for (int i = 0; i < GOLDEN_BATCH * GOLDEN_ACTIONS; i++)
        CHECK_CLOSE(found[i], wanted[i], 1.0, tolerance, key);
}

static void run_loss(struct update *u, struct hd_dqn_sums *sums_p)
{
    enum { OUTPUTS = GOLDEN_BATCH * GOLDEN_ACTIONS };
    static const float value_gamma[] = {0.970299f, 0.970299f, 0.99f, 1.0f};
    static const float done[] = {0, 0, 1, 0};
    static const int32_t action[] = {0, 1, 2, 3};
    float reward[3 * GOLDEN_BATCH];
    for (int j = 0; j < 3; j++)
        for (int b = 0; b < GOLDEN_BATCH; b++)
            reward[j * GOLDEN_BATCH + b] = 0.5f * (float)((b + j) % 3) - 0.25f;
    const struct hd_dqn_loss loss = {.batch = GOLDEN_BATCH,
                                     .actions = GOLDEN_ACTIONS,
                                     .nstep = 3,
                                     .gamma = 0.99f,
                                     .q = u->p.q,
                                     .online_next = u->p.q + OUTPUTS,
                                     .target_next = u->target_q,
                                     .action = action,
                                     .reward = reward,
                                     .ld_reward = GOLDEN_BATCH,
                                     .done = done,
                                     .value_gamma = value_gamma};
    hd_dqn_loss_compute(&loss, u->p.dq, u->td2, sums_p);
}

static void run_update(struct update *u, int t, struct golden step)
{
    enum { OUTPUTS = GOLDEN_BATCH * GOLDEN_ACTIONS };
    const struct tolerance *may = &u->tolerance;
    const int64_t n = hd_net_count_params(u->p.net), bytes = hd_net_get_obs_bytes(u->p.net);
    struct hd_dqn_sums sums;
    u->passes->of_target(u, u->target, u->p.obs + GOLDEN_BATCH * bytes, u->target_work);
    u->passes->forward(u);
    run_loss(u, &sums);
    u->passes->backward(u);
    /* Later steps start from parameters that are off by up to the tolerance after Adam. */
    double q = t == 1 ? may->q : may->q_after;
    check_matrix(u->p.q, step, "q", q);
    check_matrix(u->p.q + OUTPUTS, step, "online_next_q", q);
    check_matrix(u->target_q, step, "target_next_q", may->q);
    const double total_loss = golden_number(step, "total_loss");
    double loss = t == 1 ? may->loss : 50 * may->loss, squared_td[GOLDEN_BATCH];
    CHECK_CLOSE(sums.loss / GOLDEN_BATCH, total_loss, total_loss, loss, "loss");
    CHECK_CLOSE(sums.q / OUTPUTS, golden_number(step, "q_value"), 1.0, q, "q_value");
    CHECK_CLOSE(sums.target_q / OUTPUTS, golden_number(step, "target_q_value"), 1.0, may->q,
                "target_q_value");
    golden_read(step, "squared_td", GOLDEN_BATCH, squared_td);
    for (int b = 0; b < GOLDEN_BATCH; b++)
        CHECK_CLOSE(u->td2[b], squared_td[b], squared_td[b], loss, "squared td");
    double grad = t == 1 ? may->grad : 20 * may->grad;
    for (int64_t i = 0; i < n; i++)
        u->p.grad[i] /= GOLDEN_BATCH;
    check_tensors(u->p.net, u->p.grad, step, "grad", grad);
    struct hd_adam adam = hd_adam_make(1e-4);
    hd_adam_step(&adam, t, n, u->p.grad, 1, 1, u->m, u->v, u->p.params);
    hd_net_refresh(u->p.net, u->p.params, 0, n);
    check_tensors(u->p.net, u->p.params, step, "params_after", may->params);
}

static void run_updates(struct update *u)
{
    const struct golden golden = golden_open("dqn_pong");
    ck_assert_int_eq(golden_count(golden, "steps"), GOLDEN_STEPS);
    for (int t = 1; t <= GOLDEN_STEPS; t++)
        run_update(u, t, golden_get(golden, "steps/%d", t - 1));
    u->passes->of_target(u, u->p.params, u->p.obs, u->target_work);
    check_matrix(u->target_q, golden, "q_after", u->tolerance.q_after);
}

TEST(three_updates_are_di_engine_s, .runs = count_precisions())
{
    struct hd_net *net = pong_net((enum hd_precision)_i);
    struct update u = make_update(net, (enum hd_precision)_i);
    run_updates(&u);
    check_guards(&u.p);
    check_guard(u.target, hd_net_get_params_bytes(net));
    check_guard(u.target_work, hd_net_get_forward_bytes(net, GOLDEN_BATCH, 1));
    hd_net_destroy(net);
}

TEST(names_and_shapes_are_di_engine_s)
{
    static const int64_t counts[] = {
        128 * 4 * 8 * 8, 128 * 128 * 4 * 4, 512 * 128 * 3 * 3, 512 * 25088,
        512 * 512,       6 * 512,           512 * 512,         512};
    struct hd_net *net = pong_net(HD_F32);
    const struct golden golden = golden_open("dqn_pong");
    int64_t offset = 0;
    ck_assert_int_eq(hd_net_count_tensors(net), golden_count(golden, "names"));
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        ck_assert_str_eq(tensor->name, golden_text(golden, "names/%d", t));
        ck_assert_int_eq(tensor->offset, offset);
        ck_assert_int_eq(tensor->dims, t % 2 ? 1 : t < 6 ? 4 : 2);
        if (t % 2 == 0)
            ck_assert_int_eq(tensor->count, counts[t / 2]);
        offset += tensor->count;
    }
    ck_assert_int_eq(offset, 14259975);
    /* Only gaps between tensors, which keep blocks of shadows from crossing them, are added. */
    ck_assert_int_lt(hd_net_count_params(net), offset + 16 * 1024);
    hd_net_destroy(net);
}

/* -- Against a naive net in double ------------------------------------------------------------- */

TEST(odd_nets_are_naive_nets, .runs = count_precisions() * N_ODD)
{
    const int i = _i % N_ODD;
    const enum hd_precision precision = _i < N_ODD ? HD_F32 : HD_BF16;
    enum { ROWS = 3 };
    struct hd_net *net = make_net(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                  odd[i].heads, precision);
    struct pass p = make_pass(net, ROWS);
    struct hd_rng rng = hd_rng_make(1, (uint64_t)i, 0, 0, 0);
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    forward(&p);
    backward(&p);
    check_guards(&p);
    struct naive_net naive;
    naive_create(&naive, net, odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].heads, p.params);
    const int64_t outputs = hd_net_count_outputs(net);
    double *q = test_alloc(ROWS * outputs, sizeof *q);
    for (int64_t r = 0; r < ROWS; r++)
        naive_row(&naive, p.obs + r * hd_net_count_obs(net), p.dq + r * outputs, q + r * outputs);
    const double may_q = precision == HD_F32 ? 3e-6 : 2e-2;
    /* In bf16 a unit near zero may be active here and not in the naive net, and few rows average
     * little. */
    const double may_grad = precision == HD_F32 ? 2e-5 : 0.15;
    double off = distance(p.q, q, ROWS * outputs);
    ck_assert_msg(off <= may_q, "net %d: q off by %.1e", i, off);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *row_major = test_alloc(tensor->count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(net, p.grad, t, row_major), HD_OK);
        off = distance(row_major, naive.grad[t], tensor->count);
        ck_assert_msg(off <= may_grad, "net %d: gradient of %s off by %.1e", i, tensor->name, off);
    }
    naive_destroy(&naive);
    hd_net_destroy(net);
}

/* -- The flat array ---------------------------------------------------------------------------- */

TEST(import_and_export_are_inverse_and_shadows_follow_by_ranges, .runs = count_precisions() * N_ODD)
{
    const int i = _i % N_ODD;
    struct hd_net *net = make_net(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                  odd[i].heads, _i < N_ODD ? HD_F32 : HD_BF16);
    const int64_t n = hd_net_count_params(net), bytes = hd_net_get_params_bytes(net);
    char *a = guarded(bytes), *b = guarded(bytes);
    fill_params(net, 3, a);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        int64_t count = hd_net_get_tensor(net, t)->count;
        float *row_major = test_alloc(count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(net, (float *)a, t, row_major), HD_OK);
        ck_assert(row_major[count / 2] ==
                  (float)((2 * fill(3 + (uint64_t)t, (uint64_t)count / 2) - 1) /
                          sqrt((double)hd_net_get_tensor(net, t)->fan_in)));
        ck_assert_int_eq(hd_net_import_tensor(net, row_major, t, (float *)b), HD_OK);
    }
    int64_t blocks = (n + HD_BLOCK - 1) / HD_BLOCK;
    for (int64_t block = blocks - 1; block >= 0; block--) {
        int64_t end = (block + 1) * HD_BLOCK;
        hd_net_refresh(net, b, block * HD_BLOCK, end < n ? end : n);
    }
    ck_assert(memcmp(a, b, (size_t)bytes) == 0);
    check_guard(a, bytes);
    check_guard(b, bytes);
    hd_net_destroy(net);
}

TEST(init_does_not_depend_on_the_layout)
{
    struct hd_net *net[2] = {pong_net(HD_F32), pong_net(bf16_here() ? HD_BF16 : HD_F32)};
    struct hd_rng rng = hd_rng_make(5, 6, 0, 0, 0);
    for (int k = 0; k < 2; k++) {
        float *params = guarded(hd_net_get_params_bytes(net[k]));
        ck_assert_int_eq(hd_net_init(net[k], &rng, params), HD_OK);
        for (int t = 0; t < hd_net_count_tensors(net[k]); t++) {
            const struct hd_tensor *tensor = hd_net_get_tensor(net[k], t);
            float *row_major = test_alloc(tensor->count, sizeof *row_major);
            ck_assert_int_eq(hd_net_export_tensor(net[k], params, t, row_major), HD_OK);
            double bound = 1 / sqrt((double)tensor->fan_in);
            for (int64_t j = 0; j < tensor->count; j += 1 + tensor->count / 1000)
                ck_assert(
                    row_major[j] ==
                    (float)((2 * hd_rng_draw_uniform(&rng, (uint32_t)(tensor->offset + j)) - 1) *
                            bound));
        }
    }
    hd_net_destroy(net[0]);
    hd_net_destroy(net[1]);
}

/* -- Stages, threads, batches ------------------------------------------------------------------ */

static struct pass ready_pass(const struct hd_net *net, int64_t rows)
{
    struct pass p = make_pass(net, rows);
    struct hd_rng rng = hd_rng_make(2, 0, 0, 0, 0);
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    forward(&p);
    return p;
}

TEST(stages_tile_the_array_and_write_their_range_only, .runs = count_precisions())
{
    struct hd_net *net = pong_net((enum hd_precision)_i);
    struct pass p = ready_pass(net, 2);
    const int64_t n = hd_net_count_params(net);
    int64_t end = 0;
    float *all = test_alloc(n, sizeof *all);
    backward(&p);
    memcpy(all, p.grad, (size_t)n * sizeof *all);
    ck_assert_int_gt(hd_net_count_stages(net), 5);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++) {
        int64_t lo, hi;
        hd_net_get_stage_range(net, stage, &lo, &hi);
        ck_assert_int_eq(lo, end);
        ck_assert_int_gt(hi, lo);
        memset(p.grad, 0xFF, (size_t)n * sizeof *p.grad);
        hd_net_backward(net, p.params, 2, 4, p.work, p.dq, p.scratch, stage, p.grad);
        ck_assert(memcmp(p.grad + lo, all + lo, (size_t)(hi - lo) * sizeof *all) == 0);
        int64_t written = 0;
        for (int64_t i = 0; i < n; i++)
            written += !isnan(p.grad[i]);
        ck_assert_int_eq(written, hi - lo);
        end = hi;
    }
    ck_assert_int_eq(end, n);
    check_guards(&p);
    hd_net_destroy(net);
}

static void *run_pass(void *arg)
{
    forward(arg);
    backward(arg);
    return NULL;
}

TEST(threads_at_once_give_the_same_bits, .runs = count_precisions())
{
    enum { THREADS = 2 };
    struct hd_net *net = pong_net((enum hd_precision)_i);
    struct pass alone = ready_pass(net, 4), p[THREADS];
    const size_t bytes = (size_t)hd_net_count_params(net) * 4;
    pthread_t thread[THREADS];
    run_pass(&alone);
    hd_net_destroy(net);
    net = pong_net((enum hd_precision)_i); /* nothing is prepared: the threads do it at once */
    for (int k = 0; k < THREADS; k++) {
        p[k] = make_pass(net, 4);
        memcpy(p[k].params, alone.params, (size_t)hd_net_get_params_bytes(net));
    }
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(pthread_create(&thread[k], NULL, run_pass, &p[k]), 0);
    for (int k = 0; k < THREADS; k++) {
        pthread_join(thread[k], NULL);
        ck_assert(memcmp(p[k].grad, alone.grad, bytes) == 0);
        ck_assert(memcmp(p[k].q, alone.q, 2 * 4 * 6 * sizeof(float)) == 0);
    }
    hd_net_destroy(net);
}

TEST(microbatches_add_up_to_the_batch, .runs = count_precisions())
{
    enum { ROWS = 16, MICRO = 4 };
    struct hd_net *net = pong_net((enum hd_precision)_i);
    struct pass whole = ready_pass(net, ROWS), part = make_pass(net, MICRO);
    const int64_t n = hd_net_count_params(net), obs = hd_net_get_obs_bytes(net);
    double *sum = test_alloc(n, sizeof *sum), difference = 0, norm = 0;
    backward(&whole);
    memcpy(part.params, whole.params, (size_t)hd_net_get_params_bytes(net));
    for (int64_t first = 0; first < ROWS; first += MICRO) {
        memcpy(part.obs, whole.obs + first * obs, (size_t)(MICRO * obs));
        memcpy(part.obs + MICRO * obs, whole.obs + (ROWS + first) * obs, (size_t)(MICRO * obs));
        memcpy(part.dq, whole.dq + first * 6, MICRO * 6 * sizeof(float));
        forward(&part);
        backward(&part);
        for (int64_t i = 0; i < n; i++)
            sum[i] += part.grad[i];
        for (int64_t i = 0; i < MICRO * 6; i++)
            CHECK_CLOSE(part.q[i], whole.q[first * 6 + i], 1.0, _i ? 1e-3 : 1e-6, "q");
    }
    for (int64_t i = 0; i < n; i++) {
        difference += (sum[i] - whole.grad[i]) * (sum[i] - whole.grad[i]);
        norm += sum[i] * sum[i];
    }
    ck_assert_double_gt(norm, 0);
    ck_assert_double_lt(sqrt(difference / norm), _i ? 1e-2 : 1e-5);
    hd_net_destroy(net);
}

TEST(floats_are_bytes_divided_by_255, .runs = count_precisions() * N_ODD)
{
    const int i = _i % N_ODD;
    struct hd_net *net = make_net(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                  odd[i].heads, _i < N_ODD ? HD_F32 : HD_BF16);
    struct pass p = ready_pass(net, 128); /* every byte comes up */
    int64_t n = 256 * hd_net_count_obs(net), outputs = 256 * hd_net_count_outputs(net);
    float *floats = test_alloc(n, sizeof *floats), *q = test_alloc(outputs, sizeof *q);
    for (int64_t j = 0; j < n; j++)
        floats[j] = (float)p.obs[j] / 255.0f;
    hd_net_forward(
        net,
        &(struct hd_net_pass){
            .params = p.params, .obs = floats, .rows = 256, .work = p.work, .floats = true},
        q);
    ck_assert(memcmp(q, p.q, (size_t)outputs * sizeof *q) == 0);
    hd_net_destroy(net);
}

TEST(mistakes_name_their_field)
{
    struct hd_net_mistake mistake;
    static const int64_t small[] = {4, 32, 84}, list[] = {8, 8, 8, 8, 8};
    struct hd_net_fields fields = {
        .obs_dims = 3, .obs_shape = pong_shape, .actions = 2, .hidden = list, .n_hidden = 5};
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "encoder_hidden_size_list");
    fields.n_hidden = 3;
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_OK);
    fields.obs_shape = small;
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "obs_shape");
    fields.obs_dims = 2;
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "obs_shape");
}

/* -- On a GPU ---------------------------------------------------------------------------------- */

#if HD_CUDA

static void target_there(struct update *u, const void *params, const uint8_t *obs, void *work)
{
    (void)work;
    device_params(u->device, params);
    device_forward(u->device, NULL, obs, NULL, GOLDEN_BATCH, u->target_q);
}

static void forward_there(struct update *u)
{
    const struct pass *p = &u->p;
    device_params(u->device, p->params);
    device_forward(u->device, NULL, p->obs, p->obs + p->rows * hd_net_get_obs_bytes(p->net),
                   2 * p->rows, p->q);
}

static void backward_there(struct update *u)
{
    device_backward(u->device, u->p.rows, 2 * u->p.rows, u->p.dq, u->p.grad);
}

/* The precisions are those of the CPU and tf32, whose factors have 11 bits and which is closer than
 * bf16. */
TEST(three_updates_are_di_engine_s_on_a_gpu, .runs = GPU_PRECISIONS, .cuda = true)
{
    static const struct passes there = {target_there, forward_there, backward_there};
    const enum hd_precision on_gpu = (enum hd_precision)_i;
    struct hd_net *net =
        make_net_for(pong_shape, pong_hidden, 3, 6, HD_HEADS_DUELING, HD_F32, on_gpu);
    struct update u = make_update(net, on_gpu == HD_F32 ? HD_F32 : HD_BF16);
    struct device_pass device = device_pass(net, 2 * GOLDEN_BATCH, GOLDEN_BATCH);
    u.passes = &there;
    u.device = &device;
    run_updates(&u);
    hd_net_destroy(net);
}

#endif
