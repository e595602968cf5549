/* SPDX-License-Identifier: Apache-2.0 */
/* Puts parameters after its input, the same in every row: the logarithms of deviations that do not
 * depend on the observation, after means. Heads end in it; run files do not name it. */
#include "kernels/net/layers/layer.h"

#include <stdio.h>
#include <string.h>

static bool log_std_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    layer->out = (struct hd_shape){1, {2 * layer->in.size[0]}};
    snprintf(message, HD_LAYER_MESSAGE, "takes an input of one dimension");
    return layer->in.dims == 1;
}

static int log_std_list_tensors(const struct hd_layer *layer,
                                struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    tensors[0] = hd_layer_make_tensor(1, layer->in.size, HD_TENSOR_ZEROS, 0);
    snprintf(tensors[0].name, sizeof tensors[0].name, "log_std");
    return 1;
}

static void log_std_forward(const struct hd_layer_run *run)
{
    const int64_t n = run->layer->in.size[0];
    for (int64_t i = 0; i < n; i++) {
        memcpy(run->to + i * run->ld, run->x + i * run->x_ld, (size_t)run->ld * sizeof *run->to);
        for (int64_t b = 0; b < run->ld; b++)
            run->to[(n + i) * run->ld + b] = run->weight[i];
    }
}

static void log_std_backward_data(const struct hd_layer_run *run)
{
    memcpy(run->to, run->dy, (size_t)(run->layer->in.size[0] * run->ld) * sizeof *run->to);
}

static void log_std_backward_weights(const struct hd_layer_run *run)
{
    const int64_t n = run->layer->in.size[0];
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t b = 0; b < run->rows; b++)
            sum += run->dy[(n + i) * run->ld + b];
        run->dweight[i] = sum;
    }
}

const struct hd_layer_type hd_layer_log_std = {
    .name = "log_std",
    .form = HD_FORM_COLUMNS,
    .infer = log_std_infer,
    .list_tensors = log_std_list_tensors,
    .forward = log_std_forward,
    .backward_data = log_std_backward_data,
    .backward_weights = log_std_backward_weights,
    .has_gpu_impl = HD_CUDA,
};
