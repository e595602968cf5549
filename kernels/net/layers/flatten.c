/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Flatten: the elements of a sample in one dimension. */
#include "kernels/net/layers/layer.h"

static bool flatten_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    (void)message;
    layer->out = (struct hd_shape){1, {hd_shape_count(&layer->in)}};
    return true;
}

const struct hd_layer_type hd_layer_flatten = {.name = "flatten", .infer = flatten_infer};
