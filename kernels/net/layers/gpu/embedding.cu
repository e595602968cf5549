/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layers/gpu/launch_internal.cuh"

struct embedding_entry {
    const float *x, *weight;
    uint32_t values, width;

    __device__ float operator()(uint32_t i) const
    {
        const float value = x[i / width];
        const bool is_row = value >= 0 && value < (float)values && value == truncf(value);
        return is_row ? weight[(uint32_t)value * width + i % width] : NAN;
    }
};

/* A row of the table gets the derivatives by its copies. */
struct embedding_derivative {
    const float *x, *dy;
    uint32_t width;

    __device__ float operator()(uint32_t i, uint32_t t) const
    {
        return x[t] == (float)(i / width) ? dy[(int64_t)t * width + i % width] : 0;
    }
};

static struct hd_layer_sums make_sums(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_make_sums(layer->fields[HD_EMBEDDING_VALUES] *
                                  layer->fields[HD_EMBEDDING_WIDTH],
                              rows * layer->in.size[0], false);
}

static int64_t count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_count_sums_scratch(make_sums(layer, rows));
}

static int forward(const struct hd_layer_run *run)
{
    const int64_t *fields = run->layer->fields;
    return hd_layer_map(run,
                        embedding_entry{run->x, run->weight, (uint32_t)fields[HD_EMBEDDING_VALUES],
                                        (uint32_t)fields[HD_EMBEDDING_WIDTH]},
                        hd_layer_count_out(run), run->to);
}

static int backward_weights(const struct hd_layer_run *run)
{
    return hd_layer_sum(
        run,
        embedding_derivative{run->x, run->dy, (uint32_t)run->layer->fields[HD_EMBEDDING_WIDTH]},
        make_sums(run->layer, run->rows), (float *)run->scratch, run->dweight);
}

const struct hd_layer_on_gpu hd_embedding_on_gpu = {count_scratch, forward, NULL, backward_weights};
