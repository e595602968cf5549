/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers with few outputs, in plain loops on floats: they read rows, or a part of each, and
 * write columns, as the ends of a net's streams are. */
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"
#include "kernels/net/impl/impl.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

static int output_copy(const struct hd_impl *impl, bool joined, int t, float *row_major,
                       float *flat, bool import)
{
    const int64_t n = t == 0 ? impl->weights : impl->biases;
    (void)joined;
    memcpy(import ? flat : row_major, import ? row_major : flat, (size_t)n * sizeof *flat);
    return HD_OK;
}

/* Adds in 16 chains, then pairs of halves. */
static float dot(const float *x, const float *y, int64_t n)
{
    float lanes[HD_VEC] = {0};
    hd_vec sum = {0};
    int64_t i = 0;
    for (; i + HD_VEC <= n; i += HD_VEC)
        sum += hd_vec_load(x + i) * hd_vec_load(y + i);
    hd_vec_store(lanes, sum);
    for (; i < n; i++)
        lanes[i % HD_VEC] += x[i] * y[i];
    return hd_vec_add_lanes(lanes);
}

static int output_forward(struct hd_impl_run *run, int64_t rows, const void *x, void *y)
{
    const int64_t in = run->impl->layer->in.size[0], out = run->impl->biases;
    const int64_t ld = hd_linear_get_ld(rows);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)x + r * run->impl->in.ld;
        for (int64_t o = 0; o < out; o++)
            ((float *)y)[o * ld + r] = dot(run->weights + o * in, row, in) + run->bias[o];
    }
    return HD_OK;
}

static int output_backward_weights(struct hd_impl_run *run, int64_t rows, const void *x,
                                   const void *dy)
{
    const int64_t in = run->impl->layer->in.size[0], out = run->impl->biases;
    const int64_t ld = hd_linear_get_ld(rows);
    memset(run->dweights, 0, (size_t)(out * in) * sizeof *run->dweights);
    memset(run->dbias, 0, (size_t)out * sizeof *run->dbias);
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict row = (const float *)x + r * run->impl->in.ld;
        for (int64_t o = 0; o < out; o++) {
            const float of = ((const float *)dy)[o * ld + r];
            float *restrict dw = run->dweights + o * in;
            for (int64_t i = 0; i < in; i++)
                dw[i] += of * row[i];
            run->dbias[o] += of;
        }
    }
    return HD_OK;
}

static int output_backward_data(struct hd_impl_run *run, int64_t rows, const void *x, bool mask,
                                const void *dy, void *dx)
{
    const int64_t in = run->impl->layer->in.size[0], out = run->impl->biases;
    const int64_t ld = hd_linear_get_ld(rows);
    for (int64_t r = 0; r < rows; r++) {
        float *restrict to = (float *)dx + r * run->impl->in.ld;
        const float *restrict row = (const float *)x + r * run->impl->in.ld;
        memset(to, 0, (size_t)in * sizeof *to);
        for (int64_t o = 0; o < out; o++) {
            const float of = ((const float *)dy)[o * ld + r];
            const float *restrict w = run->weights + o * in;
            for (int64_t i = 0; i < in; i++)
                to[i] += of * w[i];
        }
        for (int64_t i = 0; i < in && mask; i++)
            to[i] = row[i] <= 0 ? 0 : to[i];
    }
    return HD_OK;
}

static const struct hd_impl_type output_type = {
    .name = "output",
    .copy = output_copy,
    .forward = output_forward,
    .backward_weights = output_backward_weights,
    .backward_data = output_backward_data,
};

int hd_impl_create_output(const struct hd_impl_fields *fields, struct hd_impl **impl_p)
{
    const int64_t in = fields->layer->in.size[0], out = fields->layer->out.size[0];
    struct hd_impl *impl = hd_alloc(1, sizeof *impl);
    if (!impl)
        return HD_ERR_NOMEM;
    *impl = (struct hd_impl){.type = &output_type,
                             .layer = fields->layer,
                             .in = fields->in,
                             .out = {.channels = out, .plane = 1, .columns = true, .ld = out},
                             .weights = out * in,
                             .biases = out,
                             .blocks = 1};
    impl->in.bf16 = false;
    *impl_p = impl;
    return HD_OK;
}
