/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.GELU without approximation (Hendrycks and Gimpel 2016): x P(x), where P is the
 * distribution function of a normal number, by the C library's error function. */
#include "kernels/net/layers/layer.h"

#include <math.h>

static float distribution(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f));
}

static float density(float x)
{
    return 0.39894228f * expf(-0.5f * x * x);
}

static void forward(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    for (int64_t i = 0; i < n; i++)
        run->to[i] = run->x[i] * distribution(run->x[i]);
}

static void backward_data(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    for (int64_t i = 0; i < n; i++) {
        const float x = run->x[i];
        run->to[i] = run->dy[i] * (distribution(x) + x * density(x));
    }
}

const struct hd_layer_type hd_layer_gelu = {
    .name = "gelu",
    .infer = hd_layer_keep_shape,
    .forward = forward,
    .backward_data = backward_data,
    .gpu = HD_ON_GPU(hd_gelu_on_gpu),
};
