/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.LayerNorm over all elements of a sample (Ba et al. 2016). Moments are doubles, summed in
 * the order of the elements. */
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <string.h>

#define EPSILON 1e-5

static int layer_norm_list_tensors(const struct hd_layer *layer,
                                   struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const struct hd_shape *shape = &layer->in;
    tensors[0] = hd_layer_make_tensor(shape->dims, shape->size, HD_TENSOR_ONES, 0);
    tensors[1] = hd_layer_make_tensor(shape->dims, shape->size, HD_TENSOR_ZEROS, 0);
    return 2;
}

struct moments {
    float mean, inverse; /* inverse: 1 / sqrt(variance + epsilon) */
};

static struct moments compute_moments(int64_t n, const float *x)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return (struct moments){(float)mean, (float)(1 / sqrt(squares / (double)n + EPSILON))};
}

static void layer_norm_forward(const struct hd_layer_run *run)
{
    const int64_t n = hd_shape_count(&run->layer->in);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *x = run->x + r * n;
        const struct moments m = compute_moments(n, x);
        for (int64_t i = 0; i < n; i++)
            run->to[r * n + i] = (x[i] - m.mean) * m.inverse * run->weight[i] + run->bias[i];
    }
}

static void layer_norm_backward_data(const struct hd_layer_run *run)
{
    const int64_t n = hd_shape_count(&run->layer->in);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *x = run->x + r * n, *dy = run->dy + r * n;
        const struct moments m = compute_moments(n, x);
        double sum = 0, product = 0;
        for (int64_t i = 0; i < n; i++) {
            const float g = run->weight[i] * dy[i];
            sum += g;
            product += (double)g * ((x[i] - m.mean) * m.inverse);
        }
        const float mean = (float)(sum / (double)n), slope = (float)(product / (double)n);
        for (int64_t i = 0; i < n; i++) {
            const float xhat = (x[i] - m.mean) * m.inverse;
            run->to[r * n + i] = m.inverse * (run->weight[i] * dy[i] - mean - xhat * slope);
        }
    }
}

static void layer_norm_backward_weights(const struct hd_layer_run *run)
{
    const int64_t n = hd_shape_count(&run->layer->in);
    memset(run->dweight, 0, (size_t)n * sizeof *run->dweight);
    memset(run->dbias, 0, (size_t)n * sizeof *run->dbias);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *x = run->x + r * n, *dy = run->dy + r * n;
        const struct moments m = compute_moments(n, x);
        for (int64_t i = 0; i < n; i++) {
            run->dweight[i] += dy[i] * ((x[i] - m.mean) * m.inverse);
            run->dbias[i] += dy[i];
        }
    }
}

const struct hd_layer_type hd_layer_layer_norm = {
    .name = "layer_norm",
    .infer = hd_layer_keep_shape,
    .list_tensors = layer_norm_list_tensors,
    .forward = layer_norm_forward,
    .backward_data = layer_norm_backward_data,
    .backward_weights = layer_norm_backward_weights,
    .gpu = HD_ON_GPU(hd_layer_norm_on_gpu),
};
