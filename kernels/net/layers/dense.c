/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Linear, through kernels/dense/linear.h. */
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

static int64_t dense_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return hd_linear_count_scratch(layer->in.size[0], rows);
}

static void dense_forward(const struct hd_layer_run *run)
{
    hd_linear_forward(run->layer->out.size[0], run->layer->in.size[0],
                      hd_linear_round_up(run->rows), run->weight, run->bias, run->relu, run->x,
                      run->x_ld, run->to, run->ld);
}

static void dense_backward_data(const struct hd_layer_run *run)
{
    hd_linear_backward_data(run->layer->out.size[0], run->layer->in.size[0],
                            hd_linear_round_up(run->rows), run->weight, run->dy, run->ld, run->add,
                            run->mask ? run->x : NULL, run->x_ld, run->to, run->ld);
}

static void dense_backward_weights(const struct hd_layer_run *run)
{
    hd_linear_backward_weights(run->layer->out.size[0], run->layer->in.size[0], run->rows, run->dy,
                               run->ld, run->x, run->x_ld, run->dweight, run->dbias, run->scratch);
}

const struct hd_layer_type hd_layer_dense = {
    .name = "dense",
    .fields = {{"out", 1, 0}},
    .form = HD_FORM_COLUMNS,
    .has_relu = true,
    .adds = true,
    .infer = dense_infer,
    .list_tensors = dense_list_tensors,
    .count_scratch = dense_count_scratch,
    .forward = dense_forward,
    .backward_data = dense_backward_data,
    .backward_weights = dense_backward_weights,
    .has_gpu_impl = HD_CUDA,
};
