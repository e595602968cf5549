/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Tanh, by the C library's function. */
#include "kernels/net/layers/layer.h"

#include <math.h>

static void forward(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    for (int64_t i = 0; i < n; i++)
        run->to[i] = tanhf(run->x[i]);
}

static void backward_data(const struct hd_layer_run *run)
{
    const int64_t n = run->rows * hd_shape_count(&run->layer->in);
    for (int64_t i = 0; i < n; i++)
        run->to[i] = run->dy[i] * (1 - run->y[i] * run->y[i]);
}

const struct hd_layer_type hd_layer_tanh = {
    .name = "tanh",
    .infer = hd_layer_keep_shape,
    .forward = forward,
    .backward_data = backward_data,
    .gpu = HD_ON_GPU(hd_tanh_on_gpu),
};
