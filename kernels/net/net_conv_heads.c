/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/vector.h"
#include "kernels/net/net_conv_internal.h"

int64_t hd_heads_count_outputs(const struct hd_conv_net *net)
{
    return net->base.actions + (hd_net_has_value(&net->base) ? 1 : 0);
}

/* Returns the offset of the neurons of output `a`'s stream. */
static int64_t stream_of(const struct hd_conv_net *net, int64_t a)
{
    return a < net->base.actions ? 0 : net->width;
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

void hd_heads_forward(const struct hd_conv_net *net, const float *params, int64_t rows,
                      const float *hidden, int64_t ld, float *q)
{
    const int64_t actions = net->base.actions, width = net->width;
    const float *w = params + net->output_offsets.weight, *bias = params + net->output_offsets.bias;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = hidden + r * ld;
        float *out = q + r * net->base.outputs, shift = 0;
        for (int64_t a = 0; a < actions; a++) {
            out[a] = dot(w + a * width, row, width) + bias[a];
            shift += out[a];
        }
        if (!hd_net_has_value(&net->base))
            continue;
        float value = dot(w + actions * width, row + width, width) + bias[actions];
        if (net->base.heads == HD_HEADS_ACTOR_CRITIC) {
            out[actions] = value;
            continue;
        }
        shift = value - shift / (float)actions;
        for (int64_t a = 0; a < actions; a++)
            out[a] += shift;
    }
}

/* Returns the derivative by output `a` of a row; dueling: dq - mean dq for an advantage, sum dq for
 * the value. */
static float output_gradient(const struct hd_conv_net *net, const float *dq, int64_t a)
{
    const int64_t actions = net->base.actions;
    float sum = 0;
    if (net->base.heads != HD_HEADS_DUELING)
        return dq[a];
    for (int64_t i = 0; i < actions; i++)
        sum += dq[i];
    return a == actions ? sum : dq[a] - sum / (float)actions;
}

void hd_heads_backward(const struct hd_conv_net *net, const float *params, int64_t rows,
                       const float *hidden, int64_t ld, const float *dq, float *grad,
                       float *dhidden)
{
    const int64_t outputs = hd_heads_count_outputs(net), width = net->width;
    const float *w = params + net->output_offsets.weight;
    float *dw = grad + net->output_offsets.weight, *dbias = grad + net->output_offsets.bias;
    memset(dw, 0, (size_t)(outputs * width) * sizeof *dw);
    memset(dbias, 0, (size_t)outputs * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++) {
        float *restrict dx = dhidden + r * ld;
        memset(dx, 0, (size_t)ld * sizeof *dx);
        for (int64_t a = 0; a < outputs; a++) {
            const float dy = output_gradient(net, dq + r * net->base.outputs, a);
            const float *x = hidden + r * ld + stream_of(net, a), *row = w + a * width;
            float *to = dx + stream_of(net, a), *sum = dw + a * width;
            for (int64_t i = 0; i < width; i++) {
                sum[i] += dy * x[i];
                to[i] += dy * row[i];
            }
            dbias[a] += dy;
        }
        for (int64_t i = 0; i < net->streams * width; i++)
            dx[i] = hidden[r * ld + i] <= 0 ? 0 : dx[i];
    }
}
