/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Tanh. */
#include "kernels/net/layers/layer.h"
#include "kernels/net/layers/smooth.h"

static void tanh_forward(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    const float *restrict x = run->x;
    float *restrict y = run->to;
    for (int64_t i = 0; i < n; i++)
        y[i] = hd_tanh_compute(x[i]);
}

static void tanh_backward_data(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    const float *restrict y = run->y, *restrict dy = run->dy;
    float *restrict dx = run->to;
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

const struct hd_layer_type hd_layer_tanh = {
    .name = "tanh",
    .infer = hd_layer_keep_shape,
    .forward = tanh_forward,
    .backward_data = tanh_backward_data,
    .gpu = HD_ON_GPU(hd_tanh_on_gpu),
};
