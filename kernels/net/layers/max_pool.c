/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.MaxPool2d with square windows. Padding never is a maximum. Of equal numbers the first in
 * the window's order counts, and a NaN counts as larger than any number, as in PyTorch. */
#include "kernels/common/vector.h"
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t stride_of(const struct hd_layer *layer)
{
    const int64_t stride = layer->fields[HD_POOL_STRIDE];
    return stride > 0 ? stride : layer->fields[HD_POOL_KERNEL];
}

static bool max_pool_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
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

/* A line of windows side by side. */
struct line {
    const struct hd_layer *layer;
    const float *plane;
    int64_t top;    /* line of pixels of their first elements; may lie in the padding */
    float *max;     /* [windows] */
    int32_t *pixel; /* [windows]: where the maximum is in the plane; NULL: does not count */
};

/* Compares windows [from, to) with pixels `stride` apart, from `first` on. */
HD_ALWAYS void compare(const struct line *line, bool where, int64_t stride, int64_t from,
                       int64_t to, int64_t first)
{
    const float *restrict x = line->plane + first;
    float *restrict max = line->max + from;
    int32_t *restrict pixel = where ? line->pixel + from : NULL;
    for (int64_t o = 0; o < to - from; o++) {
        const float value = x[o * stride];
        const bool replaces = (value > max[o]) | (value != value);
        max[o] = replaces ? value : max[o];
        if (where)
            pixel[o] = replaces ? (int32_t)(first + o * stride) : pixel[o];
    }
}

/* The compiler makes vectors where it knows the stride. */
HD_ALWAYS void compare_fast(const struct line *line, bool where, int64_t from, int64_t to,
                            int64_t first)
{
    const int64_t stride = stride_of(line->layer);
    if (stride == 1)
        compare(line, where, 1, from, to, first);
    else if (stride == 2)
        compare(line, where, 2, from, to, first);
    else
        compare(line, where, stride, from, to, first);
}

/* Compares all windows with their elements in line y of the plane. */
static void compare_line(const struct line *line, int64_t y)
{
    const struct hd_layer *layer = line->layer;
    const int64_t width = layer->in.size[2], padding = layer->fields[HD_POOL_PADDING];
    for (int64_t kx = 0; kx < layer->fields[HD_POOL_KERNEL]; kx++) {
        int64_t from, to;
        hd_clip_windows(width, layer->out.size[2], kx, stride_of(layer), padding, &from, &to);
        const int64_t first = y * width + from * stride_of(layer) + kx - padding;
        if (line->pixel)
            compare_fast(line, true, from, to, first);
        else
            compare_fast(line, false, from, to, first);
    }
}

static int64_t clip(int64_t at)
{
    return at < 0 ? 0 : at;
}

/* Finds the maxima of all windows, which start as their first pixels inside. */
static void find_maxima(const struct line *line)
{
    const struct hd_layer *layer = line->layer;
    const int64_t stride = stride_of(layer), padding = layer->fields[HD_POOL_PADDING];
    const int64_t end = hd_min(line->top + layer->fields[HD_POOL_KERNEL], layer->in.size[1]);
    for (int64_t o = 0; o < layer->out.size[2]; o++)
        line->max[o] = -INFINITY;
    for (int64_t o = 0; o < layer->out.size[2] && line->pixel; o++)
        line->pixel[o] =
            (int32_t)(clip(line->top) * layer->in.size[2] + clip(o * stride - padding));
    for (int64_t y = clip(line->top); y < end; y++)
        compare_line(line, y);
}

static struct line make_line(const struct hd_layer_run *run, int64_t plane, int64_t oy)
{
    const struct hd_layer *layer = run->layer;
    return (struct line){.layer = layer,
                         .plane = run->x + plane * hd_shape_count_plane(&layer->in),
                         .top = oy * stride_of(layer) - layer->fields[HD_POOL_PADDING]};
}

static void max_pool_forward(const struct hd_layer_run *run)
{
    const int64_t height = run->layer->out.size[1], width = run->layer->out.size[2];
    for (int64_t i = 0; i < run->rows * run->layer->out.size[0] * height; i++) {
        struct line line = make_line(run, i / height, i % height);
        line.max = run->to + i * width;
        find_maxima(&line);
    }
}

/* The maxima of a line and their pixels. */
static int64_t max_pool_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    (void)rows;
    return 2 * layer->out.size[2];
}

static void max_pool_backward_data(const struct hd_layer_run *run)
{
    const int64_t height = run->layer->out.size[1], width = run->layer->out.size[2];
    const int64_t plane = hd_shape_count_plane(&run->layer->in);
    memset(run->to, 0, (size_t)(run->rows * run->layer->in.size[0] * plane) * sizeof *run->to);
    for (int64_t i = 0; i < run->rows * run->layer->out.size[0] * height; i++) {
        struct line line = make_line(run, i / height, i % height);
        line.max = run->scratch;
        line.pixel = (int32_t *)(line.max + width);
        find_maxima(&line);
        for (int64_t o = 0; o < width; o++)
            run->to[i / height * plane + line.pixel[o]] += run->dy[i * width + o];
    }
}

const struct hd_layer_type hd_layer_max_pool = {
    .name = "max_pool",
    .fields = {{"kernel", 1, 0}, {"stride", 0, 0}, {"padding", 0, 0}},
    .infer = max_pool_infer,
    .count_scratch = max_pool_count_scratch,
    .forward = max_pool_forward,
    .backward_data = max_pool_backward_data,
    .gpu = HD_ON_GPU(hd_max_pool_on_gpu),
};
