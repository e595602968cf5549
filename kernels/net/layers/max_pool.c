/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.MaxPool2d with square windows. Padding never is a maximum. Of equal numbers the first in
 * the window's order counts, and a NaN counts as larger than any number, as in PyTorch. */
#include "kernels/common/vector.h"
#include "kernels/net/layers/form.h"
#include "kernels/net/layers/layer.h"

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

/* The pixels of a window that are inside the image: the first, and how many. */
struct window {
    int64_t first, height, width;
};

static struct window clip_window(const struct sizes *s, int64_t oy, int64_t ox)
{
    const int64_t y = oy * s->stride - s->padding, x = ox * s->stride - s->padding;
    const int64_t y0 = y > 0 ? y : 0, x0 = x > 0 ? x : 0;
    return (struct window){y0 * s->in_width + x0, hd_min(y + s->kernel, s->in_height) - y0,
                           hd_min(x + s->kernel, s->in_width) - x0};
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

/* The maxima of some pixels in up to LANES channels, and the pixels where they are. */
struct maxima {
    hd_vec max;
    hd_vec_mask pixel;
};

/* Returns the greater of both for each channel; the pixels of `b` come after those of `a`. */
HD_ALWAYS struct maxima choose(struct maxima a, struct maxima b)
{
    const hd_vec_mask later = (b.max > a.max) | (b.max != b.max);
    return (struct maxima){(hd_vec)((later & (hd_vec_mask)b.max) | (~later & (hd_vec_mask)a.max)),
                           (later & b.pixel) | (~later & a.pixel)};
}

/* `x` is the first of these channels of the image. Each row has maxima of its own, so that fewer
 * comparisons wait for one another. */
HD_ALWAYS struct maxima find_maxima(const struct sizes *s, struct window w, const void *x,
                                    int64_t first, int lanes, bool bf16)
{
    struct maxima m;
#pragma GCC unroll 3
    for (int64_t y = 0; y < w.height; y++) {
        struct maxima row;
#pragma GCC unroll 3
        for (int64_t column = 0; column < w.width; column++) {
            const int64_t at = w.first + y * s->in_width + column;
            const struct maxima here = {load(x, first + at * s->lanes, lanes, bf16),
                                        (hd_vec_mask){0} + (int32_t)at};
            row = column == 0 ? here : choose(row, here);
        }
        m = y == 0 ? row : choose(m, row);
    }
    return m;
}

/* Adds dy to the pixels of the maxima. */
HD_ALWAYS void add_to_maxima(const struct sizes *s, struct window w, struct maxima m, hd_vec dy,
                             int64_t first, int lanes, bool bf16, void *dx)
{
#pragma GCC unroll 3
    for (int64_t y = 0; y < w.height; y++)
#pragma GCC unroll 3
        for (int64_t column = 0; column < w.width; column++) {
            const int64_t pixel = w.first + y * s->in_width + column, at = first + pixel * s->lanes;
            const hd_vec_mask here = m.pixel == (int32_t)pixel;
            const hd_vec part = (hd_vec)(here & (hd_vec_mask)dy);
            store(dx, at, load(dx, at, lanes, bf16) + part, lanes, bf16);
        }
}

HD_ALWAYS void pool_window(const struct sizes *s, const struct hd_layer_run *run, struct window w,
                           int64_t in, int64_t out, int lanes, bool bf16, bool backward)
{
    const struct maxima m = find_maxima(s, w, run->x, in, lanes, bf16);
    if (backward)
        add_to_maxima(s, w, m, load(run->dy, out, lanes, bf16), in, lanes, bf16, run->to);
    else
        store(run->to, out, m.max, lanes, bf16);
}

/* Goes through the windows of some channels of an image: forward writes the maxima, backward adds
 * the derivatives to their pixels. Most windows are whole, and of 3 x 3 pixels. */
HD_ALWAYS void pool_lanes(const struct sizes *s, const struct hd_layer_run *run, int64_t in,
                          int64_t out, int lanes, bool bf16, bool backward)
{
    for (int64_t oy = 0; oy < s->out_height; oy++)
        for (int64_t ox = 0; ox < s->out_width; ox++, out += s->lanes) {
            const struct window w = clip_window(s, oy, ox);
            if (w.height == 3 && w.width == 3)
                pool_window(s, run, (struct window){w.first, 3, 3}, in, out, lanes, bf16, backward);
            else
                pool_window(s, run, w, in, out, lanes, bf16, backward);
        }
}

HD_ALWAYS void pool(const struct hd_layer_run *run, bool bf16, bool backward)
{
    const struct sizes s = sizes_of(run);
    const int64_t in = s.in_height * s.in_width * s.lanes;
    const int64_t out = s.out_height * s.out_width * s.lanes;
    const size_t bytes = (size_t)(in * hd_form_get_element_bytes(run->form));
    for (int64_t i = 0; i < run->rows * s.blocks; i++) {
        if (backward) /* each image just before, so that it is in a cache */
            memset((char *)run->to + (size_t)i * bytes, 0, bytes);
        for (int64_t lane = 0; lane < s.lanes; lane += LANES) {
            const int lanes = (int)hd_min(s.lanes - lane, LANES);
            if (lanes == LANES)
                pool_lanes(&s, run, i * in + lane, i * out + lane, LANES, bf16, backward);
            else
                pool_lanes(&s, run, i * in + lane, i * out + lane, lanes, bf16, backward);
        }
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
