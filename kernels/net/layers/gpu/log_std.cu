/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layers/gpu/launch_internal.cuh"

struct log_std_output {
    const float *x, *weight;
    uint32_t width;

    __device__ float operator()(uint32_t i) const
    {
        const uint32_t row = i / (2 * width), column = i % (2 * width);
        return column < width ? x[row * width + column] : weight[column - width];
    }
};

struct log_std_derivative {
    const float *dy;
    uint32_t width;

    __device__ float operator()(uint32_t i) const
    {
        return dy[i / width * 2 * width + i % width];
    }
};

static struct hd_layer_sums make_sums(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_make_sums(layer->in.size[0], rows, false);
}

static int64_t count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_count_sums_scratch(make_sums(layer, rows));
}

static int forward(const struct hd_layer_run *run)
{
    return hd_layer_map(run, log_std_output{run->x, run->weight, (uint32_t)run->layer->in.size[0]},
                        hd_layer_count_out(run), run->to);
}

static int backward_data(const struct hd_layer_run *run)
{
    return hd_layer_map(run, log_std_derivative{run->dy, (uint32_t)run->layer->in.size[0]},
                        hd_layer_count_in(run), run->to);
}

static int backward_weights(const struct hd_layer_run *run)
{
    const int64_t width = run->layer->in.size[0];
    return hd_layer_sum(run, hd_layer_column{run->dy + width, 2 * width},
                        make_sums(run->layer, run->rows), (float *)run->scratch, run->dweight);
}

const struct hd_layer_on_gpu hd_log_std_on_gpu = {count_scratch, forward, backward_data,
                                                  backward_weights};
