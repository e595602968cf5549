/* SPDX-License-Identifier: Apache-2.0 */
/* Nets of any layers on a GPU: against a naive net in double and the CPU; stages, updates and
 * capture. */
#include "kernels/net/gpu/layers.h"
#include "kernels/net/layers/form.h"
#include "kernels/net/net_internal.h"
#include "tests/kernels/common/device.h"
#include "tests/kernels/net/device_update.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/list/list_passes.h"

#if HD_CUDA

static struct hd_net *make_for(const struct list_case *list, enum hd_precision on_gpu)
{
    struct hd_net_fields fields = list_fields(list);
    struct hd_net *net;
    fields.on_gpu = on_gpu;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

/* Returns list i / 2 in either precision. */
static struct hd_net *make_either(int i)
{
    return make_for(&lists[i / 2], i % 2 ? HD_BF16 : HD_F32);
}

/* What the CPU computes, whose gradients test_list_net.c compares with a naive net. */
static void run_on_cpu(const struct hd_net *net, const void *params, const void *obs, int64_t rows,
                       int64_t back, const float *dq, float *q, float *grad)
{
    void *work = test_alloc(hd_net_get_forward_bytes(net, rows, 1), 1);
    void *scratch = test_alloc(hd_net_get_backward_bytes(net, back, 1), 1);
    forward_rows(net, params, NULL, obs, rows, work, q);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++)
        hd_net_backward(net, params, back, rows, work, dq, scratch, stage, grad);
}

TEST(lists_on_a_gpu_are_naive_nets, .runs = 2 * N_GPU_LISTS, .cuda = true)
{
    const struct list_case *list = &lists[_i % N_GPU_LISTS];
    const enum hd_precision on_gpu = _i < N_GPU_LISTS ? HD_F32 : HD_TF32;
    const struct hd_net_fields fields = list_fields(list);
    struct hd_net *net = make_for(list, on_gpu);
    const int64_t rows = list->rows, outputs = hd_net_count_outputs(net);
    const int64_t n = hd_net_count_params(net);
    float *params = make_params(net), *q = test_alloc(2 * rows * outputs, 4);
    float *grad = test_alloc(n, 4), *wanted_grad = test_alloc(n, 4);
    const float *dq = make_dq(0, rows * outputs);
    const char *obs = make_obs(list, net, 0, 2 * rows);
    double *wanted = test_alloc(2 * rows * outputs, sizeof *wanted);
    struct device_pass device = device_pass(net, 2 * rows, rows);
    ck_assert_ptr_null(hd_net_find_cpu_layer(net));
    ck_assert_int_eq(hd_net_prepare_cuda(net, 0, 0), HD_OK);
    run_on_cpu(net, params, obs, 2 * rows, rows, dq, q, wanted_grad);
    device_params(&device, params);
    device_forward(&device, NULL, obs, obs + rows * hd_net_get_obs_bytes(net), 2 * rows, q);
    device_backward(&device, rows, 2 * rows, dq, grad);
    naive_forward(&fields, naive_params(net, params), NULL, naive_obs(list, net, 2 * rows),
                  2 * rows, wanted);
    check_q(2 * rows * outputs, q, wanted, device_off_by[on_gpu].q, list->name);
    check_gradient(net, grad, wanted_grad, device_off_by[on_gpu].grad);
    hd_net_destroy(net);
}

/* A number of bf16 is rounded by up to 1/256 of it. Where a ReLU is near zero it may switch, or a
 * pool choose otherwise; among the last list's two million numbers, one in f32 too. */
TEST(a_gpu_is_close_to_the_cpu, .runs = 2 * (N_GPU_LISTS + 1), .cuda = true)
{
    const struct list_case *list = _i / 2 < N_GPU_LISTS ? &lists[_i / 2] : &impala;
    const bool bf16 = _i % 2;
    struct hd_net *net = make_for(list, bf16 ? HD_BF16 : HD_F32);
    const int64_t rows = list->rows, outputs = rows * hd_net_count_outputs(net);
    const int64_t n = hd_net_count_params(net);
    float *params = make_params(net), *q = test_alloc(outputs, 4), *wanted = test_alloc(outputs, 4);
    float *grad = test_alloc(n, 4), *wanted_grad = test_alloc(n, 4);
    const float *dq = make_dq(0, outputs);
    const void *obs = make_obs(list, net, 0, rows);
    struct device_pass device = device_pass(net, rows, rows);
    run_on_cpu(net, params, obs, rows, rows, dq, wanted, wanted_grad);
    device_params(&device, params);
    device_forward(&device, NULL, obs, NULL, rows, q);
    device_backward(&device, rows, rows, dq, grad);
    check_padding(net, grad);
    check_distance(outputs, q, wanted, bf16 ? 0.02 : 3e-6, list->name);
    check_distance(n, grad, wanted_grad, bf16 ? 0.1 : 1e-3, list->name);
    hd_net_destroy(net);
}

/* Rows of floats alone have derivatives by observations, after a pass of more rows. */
TEST(derivatives_by_observations_are_close_to_the_cpu_s, .runs = 2 * N_GPU_LISTS, .cuda = true)
{
    const struct list_case *list = &lists[_i / 2];
    struct hd_net *net = make_either(_i);
    const int64_t rows = list->rows, n = hd_net_count_obs(net), ld = hd_net_get_obs_cuda_ld(net);
    const bool has = hd_net_has_obs_gradient(net) && list->dims == 1;
    ck_assert((ld > 0) == has && (hd_net_get_backward_obs_cuda_bytes(net, rows) > 0) == has);
    if (has) {
        const int64_t outputs = hd_net_count_outputs(net);
        float *params = make_params(net), *q = test_alloc(2 * rows * outputs, 4);
        float *wanted = test_alloc(rows * n, 4), *dobs = test_alloc(rows * ld, 4);
        const float *dq = make_dq(0, rows * outputs);
        const char *obs = make_obs(list, net, 0, 2 * rows);
        void *work = test_alloc(hd_net_get_forward_bytes(net, 2 * rows, 1), 1);
        void *scratch = test_alloc(hd_net_get_backward_bytes(net, rows, 1), 1);
        struct device_pass device = device_pass(net, 2 * rows, rows);
        float *there = device_make(NULL, rows * ld * 4);
        void *more = device_make(NULL, hd_net_get_backward_obs_cuda_bytes(net, rows));
        forward_rows(net, params, NULL, obs, 2 * rows, work, q);
        hd_net_backward_obs(net, params, rows, 2 * rows, work, dq, scratch, wanted);
        device_params(&device, params);
        device_forward(&device, NULL, obs, obs + rows * hd_net_get_obs_bytes(net), 2 * rows, q);
        device_put(device.dq, dq, rows * outputs * 4);
        ck_assert_int_eq(hd_net_backward_obs_cuda(net, device.params, rows, 2 * rows, device.work,
                                                  device.dq, more, there, device_stream()),
                         HD_OK);
        device_get(dobs, there, rows * ld * 4);
        for (int64_t i = 0; i < rows * n; i++)
            dobs[i] = dobs[i / n * ld + i % n];
        check_distance(rows * n, dobs, wanted, _i % 2 ? 0.1 : 1e-5, list->name);
    }
    hd_net_destroy(net);
}

/* Convolutions have so many rows that their columns are made in parts, and sums are those of
 * several blocks. All layers are smooth: among a million numbers one is so near to the kink of a
 * relu, or to its neighbour in a pool, that the order of sums decides where its gradient goes. */
static const struct list_case large = {
    "parts",
    3,
    {4, 84, 84},
    true,
    5,
    36,
    ACTOR_CRITIC_STREAMS(1, 1),
    .trunk = 12,
    .layers = {L(conv, 6, 3, 1, 1), L(gelu), L(conv, 6, 3, 2, 1), RESIDUAL(2), L(tanh),
               L(conv, 6, 3, 1, 1), L(conv, 6, 3, 3, 0), L(layer_norm), L(gelu), L(flatten),
               L(dense, 7), L(tanh), L(dense, 1), L(dense, 5)}};

TEST(many_rows_in_parts_are_the_cpu_s, .runs = 2, .cuda = true)
{
    struct hd_net *net = make_for(&large, _i == 0 ? HD_F32 : HD_BF16);
    const int64_t rows = large.rows, back = rows - 1, n = hd_net_count_params(net);
    const int64_t outputs = hd_net_count_outputs(net);
    const float *params = make_params(net), *dq = make_dq(0, back * outputs);
    float *q = test_alloc(rows * outputs, 4), *wanted = test_alloc(rows * outputs, 4);
    float *grad = test_alloc(n, 4), *wanted_grad = test_alloc(n, 4);
    const char *obs = make_obs(&large, net, 0, rows);
    struct device_pass device = device_pass(net, rows, back);
    run_on_cpu(net, params, obs, rows, back, dq, wanted, wanted_grad);
    device_params(&device, params);
    device_forward(&device, NULL, obs, NULL, rows, q);
    device_backward(&device, back, rows, dq, grad);
    if (_i == 0)
        for (int64_t i = 0; i < rows * outputs; i++)
            CHECK_CLOSE(q[i], wanted[i], 1.0, 3e-6, "q");
    check_distance(rows * outputs, q, wanted, _i == 0 ? 3e-6 : 0.03, "q");
    /* Sums of 247,000 terms of either sign in another order are off by some 500 roundings, 3e-5. */
    check_gradient(net, grad, wanted_grad, _i == 0 ? 1e-4 : 0.1);
    hd_net_destroy(net);
}

/* Of equal numbers the first one counts, and of several NaNs the last one. */
TEST(pools_of_equal_numbers_are_the_cpu_s, .runs = 4, .cuda = true)
{
    enum { ROWS = 300 };
    static const int64_t fields[][3] = {{3, 2, 1}, {2, 0, 0}, {3, 1, 1}, {4, 3, 2}};
    struct hd_layer layer = {.type = &hd_layer_max_pool, .in = {3, {8, 9, 10}}};
    char message[HD_LAYER_MESSAGE];
    memcpy(layer.fields, fields[_i], sizeof fields[_i]);
    ck_assert(layer.type->infer(&layer, message));
    const int64_t in = ROWS * hd_shape_count(&layer.in), out = ROWS * hd_shape_count(&layer.out);
    float *x = test_alloc(in, 4), *dy = make_dq(0, out), *y = test_alloc(out, 4);
    float *dx = test_alloc(in, 4), *wanted_y = test_alloc(out, 4), *wanted_dx = test_alloc(in, 4);
    for (int64_t i = 0; i < in; i++)
        x[i] = i % 37 == 5 ? NAN : (float)floor(3 * fill(5, (uint64_t)i));
    struct hd_form form = hd_form_make_rows(&layer.in);
    form.layout = HD_NHWC;
    struct hd_layer_run run = {
        .layer = &layer, .rows = ROWS, .form = &form, .x = x, .dy = dy, .to = wanted_y};
    layer.type->forward(&run);
    run.to = wanted_dx;
    layer.type->backward_data(&run);
    struct hd_gpu_run on_gpu = {.layer = &layer,
                                .rows = ROWS,
                                .in = {8, 9 * 10, 8},
                                .out = {8, (int32_t)hd_shape_count_plane(&layer.out), 8},
                                .x = device_make(x, in * 4),
                                .dy = device_make(dy, out * 4),
                                .y = device_make(NULL, out * 4),
                                .kept = device_make(NULL, out * 4),
                                .dx = {.dx = device_make(NULL, in * 4)},
                                .stream = device_stream()};
    ck_assert_int_eq(layer.type->gpu->forward(&on_gpu), HD_OK);
    device_get(y, on_gpu.y, out * 4);
    ck_assert_int_eq(layer.type->gpu->backward_data(&on_gpu), HD_OK);
    device_get(dx, on_gpu.dx.dx, in * 4);
    ck_assert_mem_eq(y, wanted_y, (size_t)out * 4);
    ck_assert_mem_eq(dx, wanted_dx, (size_t)in * 4);
}

/* Checks that a stage run alone writes its range of the flat gradient, and nothing else. Leaves the
 * whole. */
static void check_stages(const struct device_pass *d, int64_t rows, const float *whole)
{
    const int64_t n = hd_net_count_params(d->net);
    float *part = test_alloc(n, 4);
    for (int stage = 0; stage < hd_net_count_stages(d->net); stage++) {
        int64_t lo, hi;
        hd_net_get_stage_range(d->net, stage, &lo, &hi);
        device_fill(d->grad, n * 4);
        ck_assert_int_eq(hd_net_backward_cuda(d->net, d->params, rows, rows, d->work, d->dq,
                                              d->scratch, stage, stage + 1, d->grad, false,
                                              device_stream()),
                         HD_OK);
        device_get(part, d->grad, n * 4);
        for (int64_t i = 0; i < n; i++)
            ck_assert(i >= lo && i < hi ? part[i] == whole[i] : isnan(part[i]));
    }
    device_put(d->grad, whole, n * 4);
}

/* The dense layer is cut in several stages. */
static const struct list_case cut = {
    "a layer of several stages",
    3,
    {4, 9, 9},
    true,
    3,
    2,
    Q_STREAM(1),
    .trunk = 5,
    .layers = {L(conv, 64, 3, 1, 1), L(relu), L(flatten), L(dense, 820), L(relu), L(dense, 3)}};

TEST(stages_on_a_gpu_write_their_range_only, .runs = 4, .cuda = true)
{
    const struct list_case *list = _i < 2 ? &lists[WIDE_LIST] : &cut;
    struct hd_net *net = make_for(list, _i % 2 ? HD_BF16 : HD_F32);
    const int64_t rows = list->rows, outputs = rows * hd_net_count_outputs(net);
    float *whole = test_alloc(hd_net_count_params(net), 4), *q = test_alloc(outputs, 4);
    struct device_pass device = device_pass(net, rows, rows);
    device_params(&device, make_params(net));
    device_forward(&device, NULL, make_obs(list, net, 0, rows), NULL, rows, q);
    device_backward(&device, rows, rows, make_dq(0, outputs), whole);
    ck_assert_int_ge(hd_net_count_stages(net), _i < 2 ? 2 : 3);
    check_stages(&device, rows, whole);
    hd_net_destroy(net);
}

/* -- The layout of the flat array -------------------------------------------------------------- */

TEST(shadows_of_lists_follow_by_ranges, .runs = 2 * N_GPU_LISTS, .cuda = true)
{
    struct hd_net *net = make_either(_i);
    check_shadow_by_ranges(net, make_params(net));
    hd_net_destroy(net);
}

TEST(gpu_order_changes_no_bit_of_a_list, .runs = 2 * N_GPU_LISTS, .cuda = true)
{
    const struct list_case *list = &lists[_i / 2];
    struct hd_net *net = make_either(_i);
    const int64_t rows = list->rows, outputs = rows * hd_net_count_outputs(net);
    const float *params = make_params(net);
    float *grad = test_alloc(hd_net_count_params(net), 4), *q = test_alloc(outputs, 4);
    struct device_pass device = device_pass(net, rows, rows);
    device_params(&device, params);
    device_forward(&device, NULL, make_obs(list, net, 0, rows), NULL, rows, q);
    device_backward(&device, rows, rows, make_dq(0, outputs), grad);
    check_gpu_order(&device, params, rows);
    hd_net_destroy(net);
}

TEST(numbers_that_are_no_value_of_an_embedding_yield_nan, .cuda = true)
{
    static const float bad[] = {-1, 6, 0.5f, NAN, INFINITY};
    struct hd_net *net = make_for(&lists[2], HD_F32);
    float obs[4] = {0, 1, 2, 5}, q[5];
    struct device_pass device = device_pass(net, 1, 1);
    device_params(&device, make_params(net));
    device_forward(&device, NULL, obs, NULL, 1, q);
    ck_assert(isfinite(q[0]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        obs[1] = bad[i];
        device_forward(&device, NULL, obs, NULL, 1, q);
        ck_assert(isnan(q[0]));
    }
    hd_net_destroy(net);
}

/* A captured pass that is launched again computes the same bits. */
TEST(passes_can_be_captured, .runs = 2 * N_GPU_LISTS, .cuda = true)
{
    const struct list_case *list = &lists[_i / 2];
    struct hd_net *net = make_either(_i);
    const int64_t rows = list->rows, n = hd_net_count_params(net);
    const int64_t outputs = rows * hd_net_count_outputs(net);
    float *q = test_alloc(2 * outputs, 4), *grad = test_alloc(2 * n, 4);
    struct device_pass d = device_pass(net, rows, rows);
    device_params(&d, make_params(net));
    device_forward(&d, NULL, make_obs(list, net, 0, rows), NULL, rows, q);
    device_backward(&d, rows, rows, make_dq(0, outputs), grad);
    device_run_captured(&d, rows, q + outputs, grad + n);
    ck_assert_mem_eq(q, q + outputs, (size_t)outputs * 4);
    ck_assert_mem_eq(grad, grad + n, (size_t)n * 4);
    hd_net_destroy(net);
}

TEST(a_layer_for_cpus_alone_keeps_a_net_off_gpus, .runs = N_NORMED, .cuda = true)
{
    struct hd_net *net = make_for(&normed[_i], HD_F32);
    ck_assert_str_eq(hd_net_find_cpu_layer(net)->type->name, "batch_norm");
    ck_assert_int_eq(hd_net_prepare_cuda(net, 1, 0), HD_ERR_UNSUPPORTED);
    ck_assert_int_eq(hd_net_get_forward_cuda_bytes(net, 1), 0);
    hd_net_destroy(net);
}

#endif
