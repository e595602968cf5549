/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutional nets on a GPU: against a naive net and the CPU; stages, shadows and capture. */
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/device.h"
#include "tests/kernels/net/conv_nets.h"
#include "tests/kernels/net/device_update.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/naive_net.h"

#include <string.h>

#if HD_CUDA

/* The odd nets are tested again. Their flat array has the layout of either precision of the CPU. */
TEST(odd_nets_are_naive_nets_on_a_gpu, .runs = GPU_PRECISIONS * N_ODD, .cuda = true)
{
    enum { ROWS = 3 };
    const int i = _i % N_ODD;
    const enum hd_precision on_gpu = (enum hd_precision)(_i / N_ODD);
    const enum hd_precision layout = _i % 2 && bf16_here() ? HD_BF16 : HD_F32;
    struct hd_net *net = make_net_for(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                      odd[i].heads, layout, on_gpu);
    struct pass p = make_pass(net, ROWS);
    struct hd_rng rng = hd_rng_make(1, (uint64_t)i, 0, 0, 0);
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    struct device_pass device = device_pass(net, 2 * ROWS, ROWS);
    device_params(&device, p.params);
    device_forward(&device, NULL, p.obs, p.obs + ROWS * hd_net_get_obs_bytes(net), 2 * ROWS, p.q);
    device_backward(&device, ROWS, 2 * ROWS, p.dq, p.grad);
    check_padding(net, p.grad);
    struct naive_net naive;
    naive_create(&naive, net, odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].heads, p.params);
    if (on_gpu == HD_BF16)
        naive_round(&naive);
    const int64_t outputs = hd_net_count_outputs(net);
    double *q = test_alloc(2 * ROWS * outputs, sizeof *q);
    float *none = test_alloc(outputs, sizeof *none);
    for (int64_t r = 0; r < 2 * ROWS; r++)
        naive_row(&naive, p.obs + r * hd_net_count_obs(net), r < ROWS ? p.dq + r * outputs : none,
                  q + r * outputs);
    double off = distance(p.q, q, 2 * ROWS * outputs);
    CHECK_RESIDUAL(off, device_off_by[on_gpu].q, in_precision("q", "", on_gpu));
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *row_major = test_alloc(tensor->count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(net, p.grad, t, row_major), HD_OK);
        off = distance(row_major, naive.grad[t], tensor->count);
        CHECK_RESIDUAL(off, device_off_by[on_gpu].grad,
                       in_precision("gradient of ", tensor->name, on_gpu));
    }
    naive_destroy(&naive);
    hd_net_destroy(net);
}

/* Draws parameters with which every second unit is active in all places of all rows, and no other:
 * biases are 1 or -1, and weights so small that what they add stays below 1 in layers whose inputs
 * stay below 2. Among nine million sums some are otherwise so near to zero that their order decides
 * whether the unit is active, and where its gradient goes. */
static void make_params_away_from_zero(const struct hd_net *net, float *params)
{
    struct hd_rng rng = hd_rng_make(3, 0, 0, 0, 0);
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *values = test_alloc(tensor->count, sizeof *values), largest = 0;
        ck_assert_int_eq(hd_net_export_tensor(net, params, t, values), HD_OK);
        for (int64_t j = 0; j < tensor->count; j++)
            largest = fmaxf(largest, fabsf(values[j]));
        for (int64_t j = 0; j < tensor->count; j++)
            values[j] = tensor->dims == 1 ? (j % 2 ? 1 : -1)
                                          : values[j] / (2 * largest * (float)tensor->fan_in);
        ck_assert_int_eq(hd_net_import_tensor(net, values, t, params), HD_OK);
    }
}

/* There are so many rows that the columns of two convolutions are made in parts, and again in the
 * backward pass, which only the first rows go through. Compared with the CPU; elements of gradients
 * are sums of up to 131,648 numbers that cancel. */
TEST(many_rows_in_parts_are_the_cpu_s, .cuda = true)
{
    enum { ROWS = 70, BACK = 68 };
    static const int64_t shape[] = {1, 180, 180}, hidden[] = {64, 8, 8};
    struct hd_net *net = make_net(shape, hidden, 3, 3, HD_HEADS_Q, HD_F32);
    const int64_t n = hd_net_count_params(net);
    struct pass p = make_pass(net, ROWS / 2);
    float *q = test_alloc(ROWS * 3, 4), *grad = test_alloc(n, 4);
    void *scratch = test_alloc(hd_net_get_backward_bytes(net, BACK, 1), 1);
    double largest = 0, off = 0;
    make_params_away_from_zero(net, p.params);
    forward_rows(net, p.params, NULL, p.obs, ROWS, p.work, p.q);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++)
        hd_net_backward(net, p.params, BACK, ROWS, p.work, p.dq, scratch, stage, p.grad);
    struct device_pass device = device_pass(net, ROWS, BACK);
    device_params(&device, p.params);
    device_forward(&device, NULL, p.obs, NULL, ROWS, q);
    device_backward(&device, BACK, ROWS, p.dq, grad);
    for (int64_t i = 0; i < ROWS * 3; i++)
        CHECK_CLOSE(q[i], p.q[i], 1.0, 2e-6, "q");
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(p.grad[i]));
        off = fmax(off, residual(grad[i], p.grad[i], 1));
    }
    CHECK_RESIDUAL(off / largest, 2e-5, "gradient");
    check_gradient(net, grad, p.grad, 5e-5);
    hd_net_destroy(net);
}

/* Its tables are there before work on a stream that does not wait for copies. */
TEST(a_prepared_net_can_be_used_at_once, .cuda = true)
{
    enum { ROWS = 2 };
    struct hd_net *nets[2];
    for (int i = 0; i < 2; i++)
        nets[i] = make_net_for(pong_shape, pong_hidden, 3, 6, HD_HEADS_DUELING, HD_F32, HD_BF16);
    const int64_t n = hd_net_count_params(nets[0]);
    struct pass p = make_pass(nets[0], ROWS);
    struct hd_rng rng = hd_rng_make(2, 0, 0, 0, 0);
    float *grad = test_alloc(n, sizeof *grad);
    ck_assert_int_eq(hd_net_init(nets[0], &rng, p.params), HD_OK);
    struct device_pass device = device_pass(nets[0], ROWS, ROWS);
    device_params(&device, p.params);
    device_forward(&device, NULL, p.obs, NULL, ROWS, p.q);
    device_backward(&device, ROWS, ROWS, p.dq, p.grad);
    ck_assert_int_eq(hd_net_prepare_cuda(nets[1], ROWS, ROWS), HD_OK);
    ck_assert_int_eq(hd_net_backward_cuda(
                         nets[1], device.params, ROWS, ROWS, device.work, device.dq, device.scratch,
                         0, hd_net_count_stages(nets[1]), device.grad, false, device_stream()),
                     HD_OK);
    device_get(grad, device.grad, n * 4);
    ck_assert_mem_eq(grad, p.grad, (size_t)n * 4);
    for (int i = 0; i < 2; i++)
        hd_net_destroy(nets[i]);
}

/* Stages run one by one and in ranges. */
TEST(stages_on_a_gpu_write_their_range_only, .runs = 2, .cuda = true)
{
    enum { ROWS = 2 };
    struct hd_net *net = make_net_for(pong_shape, pong_hidden, 3, 6, HD_HEADS_DUELING, HD_F32,
                                      (enum hd_precision)_i);
    const int64_t n = hd_net_count_params(net);
    struct pass p = make_pass(net, ROWS);
    struct hd_rng rng = hd_rng_make(2, 0, 0, 0, 0);
    float *part = test_alloc(n, sizeof *part);
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    struct device_pass device = device_pass(net, ROWS, ROWS);
    device_params(&device, p.params);
    device_forward(&device, NULL, p.obs, NULL, ROWS, p.q);
    device_backward(&device, ROWS, ROWS, p.dq, p.grad);
    for (int stage = 0; stage < hd_net_count_stages(net);) {
        const int last = stage + 2 < hd_net_count_stages(net) ? stage + 2 : stage + 1;
        int64_t lo, hi, unused;
        hd_net_get_stage_range(net, stage, &lo, &unused);
        hd_net_get_stage_range(net, last - 1, &unused, &hi);
        memset(part, 0xFF, (size_t)n * sizeof *part);
        device_put(device.grad, part, n * 4);
        ck_assert_int_eq(hd_net_backward_cuda(net, device.params, ROWS, ROWS, device.work,
                                              device.dq, device.scratch, stage, last, device.grad,
                                              false, device_stream()),
                         HD_OK);
        device_get(part, device.grad, n * 4);
        ck_assert(memcmp(part + lo, p.grad + lo, (size_t)(hi - lo) * sizeof *part) == 0);
        int64_t written = 0;
        for (int64_t i = 0; i < n; i++)
            written += !isnan(part[i]);
        ck_assert_int_eq(written, hi - lo);
        stage = last;
    }
    hd_net_destroy(net);
}

TEST(shadows_on_a_gpu_follow_by_ranges, .runs = 2 * N_ODD, .cuda = true)
{
    const int i = _i % N_ODD;
    struct hd_net *net = make_net_for(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                      odd[i].heads, HD_F32, _i < N_ODD ? HD_F32 : HD_BF16);
    float *params = guarded(hd_net_get_params_bytes(net));
    fill_params(net, 3, params);
    check_shadow_by_ranges(net, params);
    hd_net_destroy(net);
}

/* The lists of tiles are read from the cache: that of the whole net took an eighth of what Adam
 * reads. */
TEST(tiles_of_a_net_have_few_patterns, .runs = 2, .cuda = true)
{
    struct hd_net *net = make_net_for(pong_shape, pong_hidden, 3, 6, HD_HEADS_DUELING, HD_F32,
                                      _i == 0 ? HD_F32 : HD_BF16);
    struct hd_tiles tiles;
    ck_assert_int_eq(hd_net_prepare_cuda(net, 0, 0), HD_OK);
    ck_assert_int_eq(hd_net_get_tiles(net, NULL, &tiles), HD_OK);
    ck_assert_msg(100 * tiles.n_patterns <= tiles.n, "%lld patterns of %lld tiles",
                  (long long)tiles.n_patterns, (long long)tiles.n);
    hd_net_destroy(net);
}

TEST(gpu_order_changes_no_bit, .runs = 2 * N_ODD, .cuda = true)
{
    enum { BACK = 3 };
    const int i = _i % N_ODD;
    struct hd_net *net = make_net_for(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                      odd[i].heads, HD_F32, _i < N_ODD ? HD_F32 : HD_BF16);
    struct pass p = make_pass(net, BACK);
    struct hd_rng rng = hd_rng_make(4, (uint64_t)i, 0, 0, 0);
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    struct device_pass device = device_pass(net, BACK, BACK);
    device_params(&device, p.params);
    device_forward(&device, NULL, p.obs, NULL, BACK, p.q);
    device_backward(&device, BACK, BACK, p.dq, p.grad);
    check_gpu_order(&device, p.params, BACK);
    hd_net_destroy(net);
}

/* A captured pass that is launched again computes the same bits. */
TEST(passes_can_be_captured, .runs = GPU_PRECISIONS, .cuda = true)
{
    enum { ROWS = 3 };
    const int i = 3;
    struct hd_net *net = make_net_for(odd[i].shape, odd[i].hidden, odd[i].n_hidden, odd[i].actions,
                                      odd[i].heads, HD_F32, (enum hd_precision)_i);
    const int64_t n = hd_net_count_params(net), q_bytes = ROWS * hd_net_count_outputs(net) * 4;
    struct pass p = make_pass(net, ROWS);
    struct hd_rng rng = hd_rng_make(2, 0, 0, 0, 0);
    float *q = test_alloc(q_bytes, 1), *grad = test_alloc(n, 4);
    ck_assert_int_eq(hd_net_init(net, &rng, p.params), HD_OK);
    struct device_pass d = device_pass(net, ROWS, ROWS);
    device_params(&d, p.params);
    device_forward(&d, NULL, p.obs, NULL, ROWS, p.q);
    device_backward(&d, ROWS, ROWS, p.dq, p.grad);
    device_run_captured(&d, ROWS, q, grad);
    ck_assert(memcmp(q, p.q, (size_t)q_bytes) == 0);
    ck_assert(memcmp(grad, p.grad, (size_t)n * 4) == 0);
    hd_net_destroy(net);
}

#endif
