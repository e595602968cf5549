/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.MaxPool2d with square windows. Padding never is a maximum. Of equal numbers the first in
 * the window's order counts, and a NaN counts as larger than any number, as in PyTorch. */
#include "kernels/common/vector.h"
#include "kernels/net/layers/form.h"
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

/* Images are blocks of `lanes` channels, [block][y][x][lane]: one block, or blocks of 16. */
struct sizes {
    int64_t blocks, lanes;
    int64_t in_height, in_width, out_height, out_width;
    int64_t kernel, stride, padding;
};

enum { LANES = HD_VEC };

static struct sizes sizes_of(const struct hd_layer_run *run)
{
    const struct hd_layer *layer = run->layer;
    const int64_t lanes = hd_form_count_lanes(run->form);
    return (struct sizes){.blocks = (layer->in.size[0] + lanes - 1) / lanes,
                          .lanes = lanes,
                          .in_height = layer->in.size[1],
                          .in_width = layer->in.size[2],
                          .out_height = layer->out.size[1],
                          .out_width = layer->out.size[2],
                          .kernel = layer->fields[HD_POOL_KERNEL],
                          .stride = stride_of(layer),
                          .padding = layer->fields[HD_POOL_PADDING]};
}

/* The pixels [y0, y1) x [x0, x1) of a window that are inside the image. */
struct window {
    int64_t y0, y1, x0, x1;
};

static struct window clip_window(const struct sizes *s, int64_t oy, int64_t ox)
{
    const int64_t y = oy * s->stride - s->padding, x = ox * s->stride - s->padding;
    return (struct window){y > 0 ? y : 0, hd_min(y + s->kernel, s->in_height), x > 0 ? x : 0,
                           hd_min(x + s->kernel, s->in_width)};
}

/* Loads `lanes` numbers as a vector, and stores them. */
HD_ALWAYS hd_vec load(const void *from, int64_t at, int lanes, bool bf16)
{
    float numbers[LANES] = {0};
    for (int i = 0; i < lanes; i++)
        numbers[i] = bf16 ? hd_bf16_to_float(((const hd_bf16 *)from)[at + i])
                          : ((const float *)from)[at + i];
    return hd_vec_load(numbers);
}

HD_ALWAYS void store(void *to, int64_t at, hd_vec value, int lanes, bool bf16)
{
    if (bf16 && lanes == LANES) {
        hd_vec_store_bf16((hd_bf16 *)to + at, value);
        return;
    }
    for (int i = 0; i < lanes; i++)
        if (bf16)
            ((hd_bf16 *)to)[at + i] = hd_bf16_from_float(value[i]);
        else
            ((float *)to)[at + i] = value[i];
}

/* The maxima of a window in up to LANES channels, and the pixels where they are. */
struct maxima {
    hd_vec max;
    hd_vec_mask pixel;
};

/* `x` is the first of these channels of the image. */
HD_ALWAYS struct maxima find_maxima(const struct sizes *s, struct window w, const void *x,
                                    int64_t first, int lanes, bool bf16)
{
    struct maxima m = {.max = (hd_vec){0} - INFINITY,
                       .pixel = (hd_vec_mask){0} + (int32_t)(w.y0 * s->in_width + w.x0)};
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t column = w.x0; column < w.x1; column++) {
            const int64_t at = y * s->in_width + column;
            const hd_vec value = load(x, first + at * s->lanes, lanes, bf16);
            const hd_vec_mask replaces = (value > m.max) | (value != value);
            m.max = (hd_vec)((replaces & (hd_vec_mask)value) | (~replaces & (hd_vec_mask)m.max));
            m.pixel = (replaces & (int32_t)at) | (~replaces & m.pixel);
        }
    return m;
}

/* Adds dy to the pixels of the maxima. */
HD_ALWAYS void add_to_maxima(const struct sizes *s, struct window w, struct maxima m, hd_vec dy,
                             int64_t first, int lanes, bool bf16, void *dx)
{
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t column = w.x0; column < w.x1; column++) {
            const int64_t pixel = y * s->in_width + column, at = first + pixel * s->lanes;
            const hd_vec_mask here = m.pixel == (int32_t)pixel;
            const hd_vec part = (hd_vec)(here & (hd_vec_mask)dy);
            store(dx, at, load(dx, at, lanes, bf16) + part, lanes, bf16);
        }
}

/* Goes through the windows of some channels of an image: forward writes the maxima, backward adds
 * the derivatives to their pixels. */
HD_ALWAYS void pool_lanes(const struct sizes *s, const struct hd_layer_run *run, int64_t in,
                          int64_t out, int lanes, bool bf16, bool backward)
{
    for (int64_t i = 0; i < s->out_height * s->out_width; i++, out += s->lanes) {
        const struct window w = clip_window(s, i / s->out_width, i % s->out_width);
        const struct maxima m = find_maxima(s, w, run->x, in, lanes, bf16);
        if (backward)
            add_to_maxima(s, w, m, load(run->dy, out, lanes, bf16), in, lanes, bf16, run->to);
        else
            store(run->to, out, m.max, lanes, bf16);
    }
}

HD_ALWAYS void pool(const struct hd_layer_run *run, bool bf16, bool backward)
{
    const struct sizes s = sizes_of(run);
    const int64_t in = s.in_height * s.in_width * s.lanes;
    const int64_t out = s.out_height * s.out_width * s.lanes;
    for (int64_t i = 0; i < run->rows * s.blocks; i++)
        for (int64_t lane = 0; lane < s.lanes; lane += LANES) {
            const int lanes = (int)hd_min(s.lanes - lane, LANES);
            if (lanes == LANES)
                pool_lanes(&s, run, i * in + lane, i * out + lane, LANES, bf16, backward);
            else
                pool_lanes(&s, run, i * in + lane, i * out + lane, lanes, bf16, backward);
        }
}

static void max_pool_forward(const struct hd_layer_run *run)
{
    if (run->form->bf16)
        pool(run, true, false);
    else
        pool(run, false, false);
}

static void max_pool_backward_data(const struct hd_layer_run *run)
{
    memset(run->to, 0, (size_t)hd_form_get_bytes(run->form, run->rows));
    if (run->form->bf16)
        pool(run, true, true);
    else
        pool(run, false, true);
}

const struct hd_layer_type hd_layer_max_pool = {
    .name = "max_pool",
    .fields = {{"kernel", 1, 0}, {"stride", 0, 0}, {"padding", 0, 0}},
    .takes_layouts = true,
    .takes_bf16 = true,
    .infer = max_pool_infer,
    .forward = max_pool_forward,
    .backward_data = max_pool_backward_data,
    .gpu = HD_ON_GPU(hd_max_pool_on_gpu),
};
