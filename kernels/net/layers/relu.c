/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.ReLU; a NaN remains a NaN. */
#include "kernels/net/layers/layer.h"

static void relu_activate(int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] <= 0 ? 0 : y[i];
}

static void relu_differentiate(int64_t n, const float *restrict y, float *restrict dy)
{
    for (int64_t i = 0; i < n; i++)
        dy[i] = y[i] <= 0 ? 0 : dy[i];
}

const struct hd_layer_type hd_layer_relu = {
    .name = "relu",
    .form = HD_FORM_ANY,
    .infer = hd_layer_keep_shape,
    .forward = hd_layer_activate,
    .backward_data = hd_layer_differentiate,
    .activate = relu_activate,
    .differentiate = relu_differentiate,
    .gpu = HD_ON_GPU(hd_relu_on_gpu),
};
