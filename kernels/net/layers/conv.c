/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Conv2d with square kernels. */
#include "kernels/net/layers/layer.h"

#include <stdio.h>

static bool conv_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    const int64_t kernel = layer->fields[HD_CONV_KERNEL], stride = layer->fields[HD_CONV_STRIDE];
    const int64_t padding = layer->fields[HD_CONV_PADDING];
    snprintf(message, HD_LAYER_MESSAGE,
             "takes [channels, height, width] of at least %lld x %lld pixels (kernel %lld, padding "
             "%lld)",
             (long long)(kernel - 2 * padding > 1 ? kernel - 2 * padding : 1),
             (long long)(kernel - 2 * padding > 1 ? kernel - 2 * padding : 1), (long long)kernel,
             (long long)padding);
    layer->out = (struct hd_shape){3, {layer->fields[HD_CONV_CHANNELS]}};
    for (int d = 1; d < 3 && layer->in.dims == 3; d++)
        layer->out.size[d] = hd_count_windows(layer->in.size[d], kernel, stride, padding);
    return layer->in.dims == 3 && layer->out.size[1] > 0 && layer->out.size[2] > 0;
}

static int conv_list_tensors(const struct hd_layer *layer,
                             struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const int64_t kernel = layer->fields[HD_CONV_KERNEL], channels = layer->in.size[0];
    const int64_t shape[] = {layer->out.size[0], channels, kernel, kernel};
    tensors[0] = hd_layer_make_tensor(4, shape, HD_TENSOR_UNIFORM, channels * kernel * kernel);
    tensors[1] = hd_layer_make_tensor(1, shape, HD_TENSOR_UNIFORM, channels * kernel * kernel);
    return 2;
}

const struct hd_layer_type hd_layer_conv = {
    .name = "conv",
    .has_impl = true,
    .fields = {{"channels", 1, 0}, {"kernel", 1, 0}, {"stride", 1, 1}, {"padding", 0, 0}},
    .infer = conv_infer,
    .list_tensors = conv_list_tensors,
    .has_gpu_impl = HD_CUDA,
};
