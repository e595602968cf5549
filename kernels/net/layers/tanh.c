/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Tanh. */
#include "kernels/net/layers/layer.h"
#include "kernels/net/layers/smooth.h"

HD_ALWAYS void activate(int64_t at, int64_t count, float *y)
{
    hd_reg_store_some(y + at, hd_reg_tanh(hd_reg_load_some(y + at, count)), count);
}

static void tanh_activate(int64_t n, float *y)
{
    HD_FOR_REGS(n, activate, y);
}

static void tanh_differentiate(int64_t n, const float *restrict y, float *restrict dy)
{
    for (int64_t i = 0; i < n; i++)
        dy[i] = dy[i] * (1 - y[i] * y[i]);
}

const struct hd_layer_type hd_layer_tanh = {
    .name = "tanh",
    .form = HD_FORM_ANY,
    .infer = hd_layer_keep_shape,
    .forward = hd_layer_activate,
    .backward_data = hd_layer_differentiate,
    .activate = tanh_activate,
    .differentiate = tanh_differentiate,
    .gpu = HD_ON_GPU(hd_tanh_on_gpu),
};
