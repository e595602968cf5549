/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Embedding of observations that are integers 0 … values - 1: each becomes the row of that
 * number of a table. Any other number, a fraction too, yields NaN, which the losses report. */
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool embedding_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    layer->out = (struct hd_shape){2, {layer->in.size[0], layer->fields[HD_EMBEDDING_WIDTH]}};
    snprintf(message, HD_LAYER_MESSAGE, "takes an input of one dimension");
    return layer->in.dims == 1;
}

static int embedding_list_tensors(const struct hd_layer *layer,
                                  struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const int64_t shape[] = {layer->fields[HD_EMBEDDING_VALUES], layer->fields[HD_EMBEDDING_WIDTH]};
    tensors[0] = hd_layer_make_tensor(2, shape, HD_TENSOR_NORMAL, 0);
    return 1;
}

/* Returns the row of the table for an element of the input, or -1. */
static int64_t find_row(const struct hd_layer *layer, float x)
{
    const float values = (float)layer->fields[HD_EMBEDDING_VALUES];
    return x >= 0 && x < values && x == truncf(x) ? (int64_t)x : -1;
}

static void embedding_forward(const struct hd_layer_run *run)
{
    const int64_t width = run->layer->fields[HD_EMBEDDING_WIDTH];
    for (int64_t i = 0; i < run->rows * run->layer->in.size[0]; i++) {
        const int64_t row = find_row(run->layer, run->x[i]);
        float *to = run->to + i * width;
        if (row >= 0)
            memcpy(to, run->weight + row * width, (size_t)width * sizeof *to);
        for (int64_t j = 0; j < width && row < 0; j++)
            to[j] = NAN;
    }
}

static void embedding_backward_weights(const struct hd_layer_run *run)
{
    const int64_t width = run->layer->fields[HD_EMBEDDING_WIDTH];
    const int64_t values = run->layer->fields[HD_EMBEDDING_VALUES];
    memset(run->dweight, 0, (size_t)(values * width) * sizeof *run->dweight);
    for (int64_t i = 0; i < run->rows * run->layer->in.size[0]; i++) {
        const int64_t row = find_row(run->layer, run->x[i]);
        for (int64_t j = 0; j < width && row >= 0; j++)
            run->dweight[row * width + j] += run->dy[i * width + j];
    }
}

const struct hd_layer_type hd_layer_embedding = {
    .name = "embedding",
    .fields = {{"values", 1, 0}, {"width", 1, 0}},
    .observation = true,
    .infer = embedding_infer,
    .list_tensors = embedding_list_tensors,
    .forward = embedding_forward,
    .backward_weights = embedding_backward_weights,
    .gpu = HD_ON_GPU(hd_embedding_on_gpu),
};
