/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of a net on a GPU, between arrays of the host. One thread at a time. */
#pragma once

#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#if HD_CUDA

enum { GPU_PRECISIONS = 3 }; /* of enum hd_precision */

/* Tolerances for results of a precision. f32: as on the CPU. bf16: the naive net rounds where a GPU
 * does, so what remains are numbers between two bf16 numbers that are rounded the other way, by
 * 2^-8. tf32: factors are rounded to 11 bits in a way that only the GPU knows, so each product is
 * off by up to 2^-10; in small nets with few rows, the gradient of a unit near zero that is active
 * here and not in the naive net is a tenth of all. */
static const struct {
    double q, grad;
} device_off_by[] = {[HD_F32] = {3e-6, 2e-5}, [HD_BF16] = {1e-3, 1e-2}, [HD_TF32] = {3e-3, 0.15}};

/* Returns a name for the table of residuals: "gradient of encoder.act…, bf16". */
static inline const char *in_precision(const char *what, const char *name,
                                       enum hd_precision precision)
{
    static char text[96];
    static const char *const names[] = {[HD_F32] = "f32", [HD_BF16] = "bf16", [HD_TF32] = "tf32"};
    snprintf(text, sizeof text, "%s%s, %s", what, name, names[precision]);
    return text;
}

/* Memory for forward passes of up to `rows` rows in all and backward passes of up to `back`. */
struct device_pass {
    const struct hd_net *net;
    int64_t rows, back;
    void *params, *obs, *work, *scratch;
    float *q, *dq, *grad, *scale, *shift;
};

static inline struct device_pass device_pass(const struct hd_net *net, int64_t rows, int64_t back)
{
    struct device_pass p = {.net = net, .rows = rows, .back = back};
    const int64_t outputs = hd_net_count_outputs(net) * 4, obs = hd_net_count_obs(net) * 4;
    ck_assert_int_eq(hd_net_prepare_cuda(net, rows, back), HD_OK);
    p.params = device_make(NULL, hd_net_get_device_bytes(net));
    p.obs = device_make(NULL, rows * hd_net_get_obs_bytes(net));
    p.work = device_make(NULL, hd_net_get_forward_cuda_bytes(net, rows));
    p.scratch = device_make(NULL, hd_net_get_backward_cuda_bytes(net, back));
    p.q = device_make(NULL, rows * outputs);
    p.dq = device_make(NULL, back * outputs);
    p.grad = device_make(NULL, hd_net_count_params(net) * 4);
    p.scale = device_make(NULL, obs);
    p.shift = device_make(NULL, obs);
    return p;
}

static inline void device_params(const struct device_pass *p, const float *params)
{
    const int64_t n = hd_net_count_params(p->net);
    device_put(p->params, params, n * 4);
    ck_assert_int_eq(hd_net_refresh_cuda(p->net, p->params, 0, n, device_stream()), HD_OK);
}

/* Computes q[rows][outputs] of obs, or, if next_obs is given, of obs for the first half of the rows
 * and next_obs for the second. */
static inline void device_forward(const struct device_pass *p, const struct hd_obs_norm *norm,
                                  const void *obs, const void *next_obs, int64_t rows, float *q)
{
    const int64_t n = next_obs ? rows / 2 : rows, bytes = n * hd_net_get_obs_bytes(p->net);
    void *next = device_make(next_obs, next_obs ? bytes : 0);
    struct hd_obs_norm on_device = {.scale = p->scale, .shift = p->shift};
    device_put(p->obs, obs, bytes);
    if (norm) {
        device_put(p->scale, norm->scale, hd_net_count_obs(p->net) * 4);
        device_put(p->shift, norm->shift, hd_net_count_obs(p->net) * 4);
        on_device.limit = norm->limit;
    }
    norm = norm ? &on_device : NULL;
    ck_assert_int_eq(next_obs ? hd_net_forward_pair_cuda(p->net, p->params, norm, p->obs, next, n,
                                                         p->work, p->q, device_stream())
                              : hd_net_forward_cuda(p->net, p->params, norm, p->obs, rows, p->work,
                                                    p->q, device_stream()),
                     HD_OK);
    device_get(q, p->q, rows * hd_net_count_outputs(p->net) * 4);
}

/* Computes, after a forward pass of `rows` rows, grad[elements] from dq of the first `batch` of
 * them. */
static inline void device_backward(const struct device_pass *p, int64_t batch, int64_t rows,
                                   const float *dq, float *grad)
{
    device_put(p->dq, dq, batch * hd_net_count_outputs(p->net) * 4);
    ck_assert_int_eq(hd_net_backward_cuda(p->net, p->params, batch, rows, p->work, p->dq,
                                          p->scratch, 0, hd_net_count_stages(p->net), p->grad,
                                          false, device_stream()),
                     HD_OK);
    device_get(grad, p->grad, hd_net_count_params(p->net) * 4);
}

/* Computes q and grad of the `rows` observations and dq that are on the device by a captured pass.
 */
static inline void device_run_captured(const struct device_pass *p, int64_t rows, float *q,
                                       float *grad)
{
    const int64_t n = hd_net_count_params(p->net),
                  q_bytes = rows * hd_net_count_outputs(p->net) * 4;
    cudaStream_t stream = device_stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    DEVICE_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ck_assert_int_eq(hd_net_refresh_cuda(p->net, p->params, 0, n, stream), HD_OK);
    ck_assert_int_eq(
        hd_net_forward_cuda(p->net, p->params, NULL, p->obs, rows, p->work, p->q, stream), HD_OK);
    ck_assert_int_eq(hd_net_backward_cuda(p->net, p->params, rows, rows, p->work, p->dq, p->scratch,
                                          0, hd_net_count_stages(p->net), p->grad, false, stream),
                     HD_OK);
    DEVICE_TRY(cudaStreamEndCapture(stream, &graph));
    DEVICE_TRY(cudaGraphInstantiate(&exec, graph, 0));
    device_fill(p->grad, n * 4);
    device_fill(p->q, q_bytes);
    DEVICE_TRY(cudaGraphLaunch(exec, stream));
    device_get(q, p->q, q_bytes);
    device_get(grad, p->grad, n * 4);
    DEVICE_TRY(cudaGraphExecDestroy(exec));
    DEVICE_TRY(cudaGraphDestroy(graph));
}

/* Checks a gradient relative to the largest element of each tensor. */
static inline void check_gradient(const struct hd_net *net, const float *grad, const float *wanted,
                                  double tolerance)
{
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *found = hd_alloc(tensor->count, sizeof *found);
        float *from = hd_alloc(tensor->count, sizeof *from);
        double scale = 0;
        ck_assert_int_eq(hd_net_export_tensor(net, grad, t, found), HD_OK);
        ck_assert_int_eq(hd_net_export_tensor(net, wanted, t, from), HD_OK);
        for (int64_t j = 0; j < tensor->count; j++)
            scale = fmax(scale, fabs(from[j]));
        for (int64_t j = 0; j < tensor->count; j++)
            CHECK_CLOSE(found[j], from[j], scale, tolerance, tensor->name);
        hd_free(found);
        hd_free(from);
    }
}

/* Checks that elements that belong to no tensor are zero bits. */
static inline void check_padding(const struct hd_net *net, const float *grad)
{
    const int64_t n = hd_net_count_params(net);
    float *other = hd_alloc(n, sizeof *other);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        float *row_major = hd_alloc(hd_net_get_tensor(net, t)->count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(net, grad, t, row_major), HD_OK);
        ck_assert_int_eq(hd_net_import_tensor(net, row_major, t, other), HD_OK);
        hd_free(row_major);
    }
    ck_assert_mem_eq(grad, other, (size_t)n * sizeof *other);
    hd_free(other);
}

#endif
