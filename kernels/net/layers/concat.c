/* SPDX-License-Identifier: Apache-2.0 */
/* torch.cat: the end of each of a net's inputs, which writes its part of the vector that all of
 * them make. The net knows where the part begins and how long the vector is, and lets the layers of
 * all inputs write one value. */
#include "kernels/net/layers/layer.h"

#include <stdio.h>
#include <string.h>

static bool concat_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    snprintf(message, HD_LAYER_MESSAGE,
             "joins inputs of one dimension, which flatten makes of others");
    layer->out = layer->in;
    return layer->in.dims == 1;
}

static void concat_forward(const struct hd_layer_run *run)
{
    float *to = run->to + run->layer->fields[HD_CONCAT_FIRST] * run->ld;
    memcpy(to, run->x, (size_t)(run->lines * run->x_ld) * sizeof *to);
}

/* Lines of derivatives have the same distance on both sides. */
static void concat_backward_data(const struct hd_layer_run *run)
{
    const float *dy = run->dy + run->layer->fields[HD_CONCAT_FIRST] * run->ld;
    memcpy(run->to, dy, (size_t)(run->lines * run->ld) * sizeof *dy);
}

const struct hd_layer_type hd_layer_concat = {
    .name = "concat",
    .form = HD_FORM_COLUMNS,
    .infer = concat_infer,
    .forward = concat_forward,
    .backward_data = concat_backward_data,
};
