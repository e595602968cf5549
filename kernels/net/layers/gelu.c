/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.GELU without approximation (Hendrycks and Gimpel 2016): x P(x), where P is the
 * distribution function of a normal number. */
#include "kernels/net/layers/layer.h"
#include "kernels/net/layers/smooth.h"

static void gelu_forward(const struct hd_layer_run *run)
{
    for (int64_t line = 0; line < run->lines; line++) {
        const float *restrict x = run->x + line * run->x_ld;
        float *restrict y = run->to + line * run->ld;
        for (int64_t i = 0; i < run->length; i++)
            y[i] = x[i] * hd_gauss_compute(x[i]).distribution;
    }
}

static void gelu_backward_data(const struct hd_layer_run *run)
{
    for (int64_t line = 0; line < run->lines; line++) {
        const float *restrict x = run->x + line * run->x_ld, *restrict dy =
                                                                 run->dy + line * run->ld;
        float *restrict dx = run->to + line * run->ld;
        for (int64_t i = 0; i < run->length; i++) {
            const struct hd_gauss normal = hd_gauss_compute(x[i]);
            dx[i] = dy[i] * (normal.distribution + x[i] * normal.density);
        }
    }
}

const struct hd_layer_type hd_layer_gelu = {
    .name = "gelu",
    .form = HD_FORM_ANY,
    .infer = hd_layer_keep_shape,
    .forward = gelu_forward,
    .backward_data = gelu_backward_data,
    .gpu = HD_ON_GPU(hd_gelu_on_gpu),
};
