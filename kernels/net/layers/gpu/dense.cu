/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layers/gpu/launch_internal.cuh"

static struct hd_layer_sums make_sums(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_make_sums(layer->out.size[0], rows, false);
}

static int64_t count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_count_sums_scratch(make_sums(layer, rows));
}

static int forward(const struct hd_layer_run *run)
{
    return hd_layer_multiply_forward(run, run->rows, run->layer->in.size[0],
                                     run->layer->out.size[0], run->x, run->to);
}

static int backward_data(const struct hd_layer_run *run)
{
    return hd_layer_multiply_data(run, run->rows, run->layer->in.size[0], run->layer->out.size[0],
                                  run->dy, run->to);
}

static int backward_weights(const struct hd_layer_run *run)
{
    const int64_t out = run->layer->out.size[0];
    HD_TRY(hd_layer_sum(run, hd_layer_column{run->dy, out}, make_sums(run->layer, run->rows),
                        (float *)run->scratch, run->dbias));
    return hd_layer_multiply_weights(run, run->rows, run->layer->in.size[0], out, run->dy, run->x,
                                     false);
}

const struct hd_layer_on_gpu hd_dense_on_gpu = {count_scratch, forward, backward_data,
                                                backward_weights};
