/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow weights of a net on a GPU, and updates by gradients in either order. One thread at a time.
 */
#pragma once

#include "kernels/learn/adam.h"
#include "kernels/learn/grad_norm.h"
#include "runtime/base/hash.h"
#include "tests/kernels/net/device_net.h"

#include <string.h>

#if HD_CUDA

/* Checks that the shadow after refreshing all ranges, the last one first, is that of refreshing the
 * whole. */
static inline void check_shadow_by_ranges(const struct hd_net *net, const float *params)
{
    const int64_t n = hd_net_count_params(net), bytes = hd_net_get_device_bytes(net);
    char *whole = test_alloc(bytes, 1), *ranges = test_alloc(bytes, 1);
    struct device_pass device = device_pass(net, 1, 1);
    device_params(&device, params);
    device_get(whole, device.params, bytes);
    memset(ranges, 0xFF, (size_t)bytes);
    device_put(device.params, ranges, bytes);
    device_put(device.params, params, n * 4);
    for (int64_t hi = n; hi > 0; hi -= HD_BLOCK) {
        const int64_t lo = hi > HD_BLOCK ? hi - HD_BLOCK : 0;
        ck_assert_int_eq(hd_net_refresh_cuda(net, device.params, lo, hi, device_stream()), HD_OK);
    }
    device_get(ranges, device.params, bytes);
    ck_assert(memcmp(ranges, whole, (size_t)bytes) == 0);
}

/* What an update computes from a gradient, on the host. */
struct updated {
    char *params; /* with shadow weights */
    float *m, *v;
    double *squares;
};

/* Makes two steps of Adam in ranges, the last range first, by a gradient in either order. */
static inline struct updated update(const struct device_pass *d, const float *grad, bool gpu_order)
{
    const int64_t n = hd_net_count_params(d->net), bytes = hd_net_get_device_bytes(d->net);
    const int64_t blocks = (n + HD_BLOCK - 1) / HD_BLOCK, cut = blocks / 2 * HD_BLOCK;
    const struct hd_adam adam = hd_adam_make(1e-2);
    const struct hd_adam_inputs inputs = {0};
    const float count = 3, *zeros = test_alloc(n, sizeof *zeros);
    const int64_t none = 0;
    const struct hd_partials partials = {grad, device_make(&count, sizeof count), 1, 0};
    int64_t *updates = device_make(&none, sizeof none);
    float *scratch = device_make(NULL, HD_ADAM_SCRATCH * sizeof *scratch);
    float *m = device_make(zeros, n * 4), *v = device_make(zeros, n * 4);
    double *squares = device_make(NULL, blocks * 8);
    const struct updated u = {test_alloc(bytes, 1), test_alloc(n, 4), test_alloc(n, 4),
                              test_alloc(blocks, 8)};
    struct hd_tiles tiles;
    ck_assert_int_eq(hd_net_get_tiles(d->net, d->params, &tiles), HD_OK);
    for (int i = 0; i < 4; i++) {
        const int64_t lo = i % 2 ? 0 : cut, hi = i % 2 ? cut : n;
        ck_assert_int_eq(hd_adam_step_cuda(&adam, &partials, gpu_order, &tiles, lo, hi - lo,
                                           &inputs, i % 2 ? NULL : updates, scratch, m, v,
                                           device_stream()),
                         HD_OK);
    }
    ck_assert_int_eq(hd_grad_norm_sum_squares_cuda(&partials, gpu_order ? tiles.gradient_at : NULL,
                                                   0, n, squares, device_stream()),
                     HD_OK);
    device_get(u.params, d->params, bytes);
    device_get(u.m, m, n * 4);
    device_get(u.v, v, n * 4);
    device_get(u.squares, squares, blocks * 8);
    return u;
}

/* Checks, after a forward pass of `rows` rows and a backward pass to device.grad, that an update by
 * the gradient in GPU order, whose stages come one by one, has the bits of one by the flat
 * gradient, and that the shadow that it leaves is that of refreshing the whole. */
static inline void check_gpu_order(const struct device_pass *d, const float *params, int64_t rows)
{
    const struct hd_net *net = d->net;
    const int64_t n = hd_net_count_params(net), bytes = hd_net_get_device_bytes(net);
    float *grad = device_make(NULL, hd_net_count_gpu_gradient(net) * 4);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++)
        ck_assert_int_eq(hd_net_backward_cuda(net, d->params, rows, rows, d->work, d->dq,
                                              d->scratch, stage, stage + 1, grad, true,
                                              device_stream()),
                         HD_OK);
    const struct updated flat = update(d, d->grad, false);
    device_params(d, params);
    const struct updated gpu = update(d, grad, true);
    ck_assert(memcmp(gpu.m, flat.m, (size_t)n * 4) == 0);
    ck_assert(memcmp(gpu.v, flat.v, (size_t)n * 4) == 0);
    ck_assert(memcmp(gpu.params, flat.params, (size_t)bytes) == 0);
    ck_assert(memcmp(gpu.params, params, (size_t)n * 4) != 0);
    ck_assert_mem_eq(gpu.squares, flat.squares, (size_t)((n + HD_BLOCK - 1) / HD_BLOCK) * 8);
    device_params(d, (float *)gpu.params);
    device_get(flat.params, d->params, bytes);
    ck_assert(memcmp(gpu.params, flat.params, (size_t)bytes) == 0);
}

#endif
