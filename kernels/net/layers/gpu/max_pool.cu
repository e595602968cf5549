/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layers/gpu/windows_internal.cuh"

static struct hd_layer_windows windows_of(const struct hd_layer *layer)
{
    const int64_t kernel = layer->fields[HD_POOL_KERNEL], stride = layer->fields[HD_POOL_STRIDE];
    return hd_layer_make_windows(layer, kernel, stride > 0 ? stride : kernel,
                                 layer->fields[HD_POOL_PADDING]);
}

/* Returns the number among x of the maximum of output i's window. */
static inline __device__ uint32_t find_max(const struct hd_layer_windows &w, const float *x,
                                           uint32_t i)
{
    const struct hd_layer_pixel out = hd_layer_find_pixel(i, w.out_height, w.out_width);
    const uint32_t plane = out.image * (uint32_t)w.height * (uint32_t)w.width;
    const int32_t top = out.y * w.stride - w.padding, left = out.x * w.stride - w.padding;
    uint32_t at = UINT32_MAX;
    float max = 0;
    for (int32_t y = top; y < top + w.kernel; y++)
        for (int32_t px = left; px < left + w.kernel; px++) {
            const uint32_t pixel = plane + (uint32_t)(y * w.width + px);
            if (!w.is_inside(y, px))
                continue;
            if (at == UINT32_MAX || x[pixel] > max || isnan(x[pixel])) {
                max = x[pixel];
                at = pixel;
            }
        }
    return at;
}

struct pool_maximum {
    struct hd_layer_windows w;
    const float *x;

    __device__ float operator()(uint32_t i) const
    {
        return x[find_max(w, x, i)];
    }
};

struct pool_place {
    struct hd_layer_windows w;
    const float *x;

    __device__ uint32_t operator()(uint32_t i) const
    {
        return find_max(w, x, i);
    }
};

/* A pixel gets the derivatives by the windows of which it is the maximum. */
struct pool_derivative {
    struct hd_layer_windows w;
    const uint32_t *places;
    const float *dy;

    __device__ float operator()(uint32_t i) const
    {
        const struct hd_layer_pixel in = hd_layer_find_pixel(i, w.height, w.width);
        const uint32_t plane = in.image * (uint32_t)w.out_height * (uint32_t)w.out_width;
        float sum = 0;
        hd_layer_visit_windows(w, in.y, in.x, [&](int32_t oy, int32_t ox) {
            const uint32_t out = plane + (uint32_t)(oy * w.out_width + ox);
            sum += places[out] == i ? dy[out] : 0;
        });
        return sum;
    }
};

static int64_t count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return rows * hd_shape_count(&layer->out);
}

static int forward(const struct hd_layer_run *run)
{
    return hd_layer_map(run, pool_maximum{windows_of(run->layer), run->x}, hd_layer_count_out(run),
                        run->to);
}

static int backward_data(const struct hd_layer_run *run)
{
    const struct hd_layer_windows w = windows_of(run->layer);
    uint32_t *places = (uint32_t *)run->scratch;
    HD_TRY(hd_layer_map(run, pool_place{w, run->x}, hd_layer_count_out(run), places));
    return hd_layer_map(run, pool_derivative{w, places, run->dy}, hd_layer_count_in(run), run->to);
}

const struct hd_layer_on_gpu hd_max_pool_on_gpu = {count_scratch, forward, backward_data, NULL};
