/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.ReLU; a NaN remains a NaN. */
#include "kernels/net/layers/layer.h"

static void relu_forward(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    for (int64_t i = 0; i < n; i++)
        run->to[i] = run->x[i] <= 0 ? 0 : run->x[i];
}

static void relu_backward_data(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    for (int64_t i = 0; i < n; i++)
        run->to[i] = run->x[i] <= 0 ? 0 : run->dy[i];
}

const struct hd_layer_type hd_layer_relu = {
    .name = "relu",
    .infer = hd_layer_keep_shape,
    .forward = relu_forward,
    .backward_data = relu_backward_data,
    .gpu = HD_ON_GPU(hd_relu_on_gpu),
};
