/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.ReLU; a NaN remains a NaN. */
#include "kernels/common/activation.h"
#include "kernels/net/layers/form.h"
#include "kernels/net/layers/layer.h"

#include <string.h>

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

static void relu_forward(const struct hd_layer_run *run)
{
    const hd_bf16 *x = (const hd_bf16 *)run->x;
    hd_bf16 *to = (hd_bf16 *)run->to;
    if (!run->form->bf16) {
        hd_layer_activate(run);
        return;
    }
    for (int64_t i = 0; i < run->length; i++)
        to[i] = hd_bf16_to_float(x[i]) <= 0 ? 0 : x[i];
}

static void relu_backward_data(const struct hd_layer_run *run)
{
    if (!run->form->bf16) {
        hd_layer_differentiate(run);
        return;
    }
    memcpy(run->to, run->dy, (size_t)run->length * sizeof(hd_bf16));
    hd_relu_backward_bf16(run->length, (const hd_bf16 *)run->y, (hd_bf16 *)run->to);
}

const struct hd_layer_type hd_layer_relu = {
    .name = "relu",
    .form = HD_FORM_ANY,
    .takes_bf16 = true,
    .infer = hd_layer_keep_shape,
    .forward = relu_forward,
    .backward_data = relu_backward_data,
    .activate = relu_activate,
    .differentiate = relu_differentiate,
    .gpu = HD_ON_GPU(hd_relu_on_gpu),
};
