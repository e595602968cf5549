/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.MaxPool2d with square windows. Padding never is a maximum. Of equal numbers the first in
 * the window's order counts, and a NaN counts as larger than any number, as in PyTorch. */
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t stride_of(const struct hd_layer *layer)
{
    const int64_t stride = layer->fields[HD_POOL_STRIDE];
    return stride > 0 ? stride : layer->fields[HD_POOL_KERNEL];
}

static bool infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    const int64_t kernel = layer->fields[HD_POOL_KERNEL], padding = layer->fields[HD_POOL_PADDING];
    if (2 * padding > kernel) {
        snprintf(message, HD_LAYER_MESSAGE,
                 "takes a padding of at most half the kernel %lld, found %lld", (long long)kernel,
                 (long long)padding);
        return false;
    }
    snprintf(message, HD_LAYER_MESSAGE,
             "takes [channels, height, width] of at least %lld x %lld pixels (kernel %lld, padding "
             "%lld)",
             (long long)(kernel - 2 * padding > 1 ? kernel - 2 * padding : 1),
             (long long)(kernel - 2 * padding > 1 ? kernel - 2 * padding : 1), (long long)kernel,
             (long long)padding);
    layer->out = layer->in;
    for (int d = 1; d < 3 && layer->in.dims == 3; d++)
        layer->out.size[d] = hd_count_windows(layer->in.size[d], kernel, stride_of(layer), padding);
    return layer->in.dims == 3 && layer->out.size[1] > 0 && layer->out.size[2] > 0;
}

/* Returns the pixel that is the maximum of the window of output (oy, ox). */
static int64_t find_max(const struct hd_layer *layer, const float *plane, int64_t oy, int64_t ox)
{
    const int64_t kernel = layer->fields[HD_POOL_KERNEL], padding = layer->fields[HD_POOL_PADDING];
    const int64_t height = layer->in.size[1], width = layer->in.size[2];
    const int64_t top = oy * stride_of(layer) - padding, left = ox * stride_of(layer) - padding;
    int64_t max = -1;
    for (int64_t y = top < 0 ? 0 : top; y < top + kernel && y < height; y++)
        for (int64_t x = left < 0 ? 0 : left; x < left + kernel && x < width; x++) {
            const float value = plane[y * width + x];
            if (max < 0 || value > plane[max] || isnan(value))
                max = y * width + x;
        }
    return max;
}

static void forward(const struct hd_layer_run *run)
{
    const struct hd_layer *layer = run->layer;
    const int64_t plane = hd_shape_count_plane(&layer->in), width = layer->out.size[2];
    const int64_t outputs = hd_shape_count_plane(&layer->out);
    for (int64_t c = 0; c < run->rows * layer->in.size[0]; c++) {
        const float *x = run->x + c * plane;
        for (int64_t o = 0; o < outputs; o++)
            run->to[c * outputs + o] = x[find_max(layer, x, o / width, o % width)];
    }
}

static void backward_data(const struct hd_layer_run *run)
{
    const struct hd_layer *layer = run->layer;
    const int64_t plane = hd_shape_count_plane(&layer->in), width = layer->out.size[2];
    const int64_t outputs = hd_shape_count_plane(&layer->out);
    for (int64_t c = 0; c < run->rows * layer->in.size[0]; c++) {
        const float *x = run->x + c * plane;
        float *dx = run->to + c * plane;
        memset(dx, 0, (size_t)plane * sizeof *dx);
        for (int64_t o = 0; o < outputs; o++)
            dx[find_max(layer, x, o / width, o % width)] += run->dy[c * outputs + o];
    }
}

const struct hd_layer_type hd_layer_max_pool = {
    .name = "max_pool",
    .fields = {{"kernel", 1, 0}, {"stride", 0, 0}, {"padding", 0, 0}},
    .infer = infer,
    .forward = forward,
    .backward_data = backward_data,
    .gpu = HD_ON_GPU(hd_max_pool_on_gpu),
};
