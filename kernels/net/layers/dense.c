/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Linear, through kernels/dense/linear.h, whose activations are feature-major. */
#include "kernels/dense/linear.h"
#include "kernels/net/layers/layer.h"

#include <stdio.h>

static bool dense_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    layer->out = (struct hd_shape){1, {layer->fields[HD_DENSE_OUT]}};
    snprintf(message, HD_LAYER_MESSAGE, "takes an input of one dimension, which flatten makes");
    return layer->in.dims == 1;
}

static int dense_list_tensors(const struct hd_layer *layer,
                              struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const int64_t in = layer->in.size[0], shape[] = {layer->out.size[0], in};
    tensors[0] = hd_layer_make_tensor(2, shape, HD_TENSOR_UNIFORM, in);
    tensors[1] = hd_layer_make_tensor(1, shape, HD_TENSOR_UNIFORM, in);
    return 2;
}

/* Input and output, feature-major. */
static int64_t dense_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return (layer->in.size[0] + layer->out.size[0]) * hd_linear_get_ld(rows);
}

static void dense_forward(const struct hd_layer_run *run)
{
    const int64_t in = run->layer->in.size[0], out = run->layer->out.size[0];
    const int64_t ld = hd_linear_get_ld(run->rows);
    float *x = run->scratch, *y = x + in * ld;
    hd_transpose(run->rows, in, run->x, in, x, ld);
    hd_linear_forward(out, in, ld, run->weight, run->bias, false, x, ld, y, ld);
    hd_transpose(out, run->rows, y, ld, run->to, out);
}

static void dense_backward_data(const struct hd_layer_run *run)
{
    const int64_t in = run->layer->in.size[0], out = run->layer->out.size[0];
    const int64_t ld = hd_linear_get_ld(run->rows);
    float *dx = run->scratch, *dy = dx + in * ld;
    hd_transpose(run->rows, out, run->dy, out, dy, ld);
    hd_linear_backward_data(out, in, ld, run->weight, dy, ld, false, NULL, 0, dx, ld);
    hd_transpose(in, run->rows, dx, ld, run->to, in);
}

static void dense_backward_weights(const struct hd_layer_run *run)
{
    const int64_t in = run->layer->in.size[0], out = run->layer->out.size[0];
    const int64_t ld = hd_linear_get_ld(run->rows);
    float *dy = run->scratch;
    hd_transpose(run->rows, out, run->dy, out, dy, ld);
    hd_linear_backward_weights(out, in, run->rows, dy, ld, run->x, in, run->dweight, run->dbias);
}

const struct hd_layer_type hd_layer_dense = {
    .name = "dense",
    .fields = {{"out", 1, 0}},
    .infer = dense_infer,
    .list_tensors = dense_list_tensors,
    .count_scratch = dense_count_scratch,
    .forward = dense_forward,
    .backward_data = dense_backward_data,
    .backward_weights = dense_backward_weights,
    .gpu = HD_ON_GPU(hd_dense_on_gpu),
};
