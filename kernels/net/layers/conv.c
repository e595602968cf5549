/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.Conv2d with square kernels, by products of the weights with the windows of an image, one
 * window a column (kernels/dense/linear.h). A part of a few lines of outputs of one image is done
 * at a time, so that its windows stay in the cache. Parts follow from the shapes alone. */
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"
#include "kernels/net/layers/layer.h"

#include <stdio.h>
#include <string.h>

enum { PART_FLOATS = 1 << 16 };

struct sizes {
    int64_t channels, height, width, kernel, stride, padding;
    int64_t out, out_height, out_width;
    int64_t depth; /* elements of a window */
    int64_t lines; /* of outputs of a part */
    int64_t ld;    /* columns of a part, padded */
};

static struct sizes sizes_of(const struct hd_layer *layer)
{
    struct sizes s = {.channels = layer->in.size[0],
                      .height = layer->in.size[1],
                      .width = layer->in.size[2],
                      .kernel = layer->fields[HD_CONV_KERNEL],
                      .stride = layer->fields[HD_CONV_STRIDE],
                      .padding = layer->fields[HD_CONV_PADDING],
                      .out = layer->out.size[0],
                      .out_height = layer->out.size[1],
                      .out_width = layer->out.size[2]};
    s.depth = s.channels * s.kernel * s.kernel;
    s.lines = PART_FLOATS / (s.depth * s.out_width);
    s.lines = s.lines < 1 ? 1 : s.lines < s.out_height ? s.lines : s.out_height;
    s.ld = hd_linear_get_ld(s.lines * s.out_width);
    return s;
}

static bool conv_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    const int64_t kernel = layer->fields[HD_CONV_KERNEL], stride = layer->fields[HD_CONV_STRIDE];
    const int64_t padding = layer->fields[HD_CONV_PADDING];
    snprintf(message, HD_LAYER_MESSAGE,
             "takes [channels, height, width] of at least %lld x %lld pixels (kernel %lld, padding "
             "%lld)",
             (long long)(kernel - 2 * padding > 1 ? kernel - 2 * padding : 1),
             (long long)(kernel - 2 * padding > 1 ? kernel - 2 * padding : 1), (long long)kernel,
             (long long)padding);
    layer->out = (struct hd_shape){3, {layer->fields[HD_CONV_CHANNELS]}};
    for (int d = 1; d < 3 && layer->in.dims == 3; d++)
        layer->out.size[d] = hd_count_windows(layer->in.size[d], kernel, stride, padding);
    return layer->in.dims == 3 && layer->out.size[1] > 0 && layer->out.size[2] > 0;
}

static int conv_list_tensors(const struct hd_layer *layer,
                             struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const struct sizes s = sizes_of(layer);
    const int64_t shape[] = {s.out, s.channels, s.kernel, s.kernel};
    tensors[0] = hd_layer_make_tensor(4, shape, HD_TENSOR_UNIFORM, s.depth);
    tensors[1] = hd_layer_make_tensor(1, shape, HD_TENSOR_UNIFORM, s.depth);
    return 2;
}

/* The memory of a part. */
struct part {
    float *windows;    /* [depth][ld]: window elements by outputs */
    float *transposed; /* [ld][depth], and what a vector reads beyond it */
    float *outputs;    /* [out][ld], or derivatives by them */
    float *dweight, *dbias;
};

static int64_t lay_out(const struct sizes *s, float *memory, struct part *part)
{
    const int64_t windows = s->depth * s->ld, weights = hd_linear_get_ld(s->out * s->depth);
    part->windows = memory;
    part->transposed = part->windows + windows;
    part->outputs = part->transposed + windows + HD_LANES;
    part->dweight = part->outputs + s->out * s->ld;
    part->dbias = part->dweight + weights;
    return part->dbias + s->out - memory;
}

static int64_t conv_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    const struct sizes s = sizes_of(layer);
    struct part part;
    static float origin[1]; /* only its address counts */
    (void)rows;
    return lay_out(&s, origin, &part);
}

/* One element (ky, kx) of the windows of lines of outputs, from line `first` on, of one plane. */
struct element {
    int64_t from, to; /* outputs of a line whose element is inside the image */
    int64_t y, x;     /* pixel of output (first, from) */
};

static struct element find_element(const struct sizes *s, int64_t first, int64_t d)
{
    const int64_t ky = d / s->kernel % s->kernel, kx = d % s->kernel;
    struct element e;
    hd_clip_windows(s->width, s->out_width, kx, s->stride, s->padding, &e.from, &e.to);
    e.y = first * s->stride + ky - s->padding;
    e.x = e.from * s->stride + kx - s->padding;
    return e;
}

/* Copies the element of `lines` lines of windows; elements outside the image are zero. */
HD_ALWAYS void gather_element(const struct sizes *s, int64_t stride, const struct element *e,
                              const float *plane, int64_t lines, float *row)
{
    for (int64_t l = 0; l < lines; l++, row += s->out_width) {
        const int64_t y = e->y + l * stride;
        const bool inside = y >= 0 && y < s->height && e->from < e->to;
        const int64_t from = inside ? e->from : s->out_width, to = inside ? e->to : s->out_width;
        const float *x = plane + (inside ? y * s->width + e->x : 0);
        for (int64_t o = 0; o < from; o++)
            row[o] = 0;
        for (int64_t o = from; o < to; o++)
            row[o] = x[(o - from) * stride];
        for (int64_t o = to; o < s->out_width; o++)
            row[o] = 0;
    }
}

HD_ALWAYS void add_element(const struct sizes *s, int64_t stride, const struct element *e,
                           const float *restrict row, int64_t lines, float *restrict plane)
{
    for (int64_t l = 0; l < lines; l++, row += s->out_width) {
        const int64_t y = e->y + l * stride;
        if (y < 0 || y >= s->height)
            continue;
        for (int64_t o = 0; o < e->to - e->from; o++)
            plane[y * s->width + e->x + o * stride] += row[e->from + o];
    }
}

static int64_t find_plane(const struct sizes *s, int64_t d)
{
    return d / (s->kernel * s->kernel) * s->height * s->width;
}

/* Copies the windows of `lines` lines of outputs, from line `first` on, of one image. The compiler
 * makes vectors where it knows that the stride is 1. */
static void gather_windows(const struct sizes *s, const float *image, int64_t first, int64_t lines,
                           float *windows)
{
    for (int64_t d = 0; d < s->depth; d++) {
        const struct element e = find_element(s, first, d);
        const float *plane = image + find_plane(s, d);
        float *row = windows + d * s->ld;
        if (s->stride == 1)
            gather_element(s, 1, &e, plane, lines, row);
        else
            gather_element(s, s->stride, &e, plane, lines, row);
        for (int64_t o = lines * s->out_width; o < s->ld; o++)
            row[o] = 0;
    }
}

/* Adds windows to the pixels that they were copied from. */
static void add_windows(const struct sizes *s, const float *windows, int64_t first, int64_t lines,
                        float *image)
{
    for (int64_t d = 0; d < s->depth; d++) {
        const struct element e = find_element(s, first, d);
        float *plane = image + find_plane(s, d);
        if (s->stride == 1)
            add_element(s, 1, &e, windows + d * s->ld, lines, plane);
        else
            add_element(s, s->stride, &e, windows + d * s->ld, lines, plane);
    }
}

static int64_t clip_lines(const struct sizes *s, int64_t first)
{
    return hd_min(s->out_height - first, s->lines);
}

/* Copies lines of all channels from an image's derivatives to a part, with zeros behind them. */
static void read_outputs(const struct sizes *s, const float *image, int64_t first, int64_t lines,
                         float *outputs)
{
    const int64_t n = lines * s->out_width;
    for (int64_t o = 0; o < s->out; o++) {
        memcpy(outputs + o * s->ld, image + (o * s->out_height + first) * s->out_width,
               (size_t)n * sizeof *outputs);
        memset(outputs + o * s->ld + n, 0, (size_t)(s->ld - n) * sizeof *outputs);
    }
}

static void write_outputs(const struct sizes *s, const float *outputs, int64_t first, int64_t lines,
                          float *image)
{
    for (int64_t o = 0; o < s->out; o++)
        memcpy(image + (o * s->out_height + first) * s->out_width, outputs + o * s->ld,
               (size_t)(lines * s->out_width) * sizeof *outputs);
}

static void conv_forward(const struct hd_layer_run *run)
{
    const struct sizes s = sizes_of(run->layer);
    const int64_t in = hd_shape_count(&run->layer->in), out = hd_shape_count(&run->layer->out);
    struct part part;
    lay_out(&s, run->scratch, &part);
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t first = 0; first < s.out_height; first += s.lines) {
            const int64_t lines = clip_lines(&s, first);
            gather_windows(&s, run->x + r * in, first, lines, part.windows);
            hd_linear_forward(s.out, s.depth, s.ld, run->weight, run->bias, false, part.windows,
                              s.ld, part.outputs, s.ld);
            write_outputs(&s, part.outputs, first, lines, run->to + r * out);
        }
}

static void conv_backward_data(const struct hd_layer_run *run)
{
    const struct sizes s = sizes_of(run->layer);
    const int64_t in = hd_shape_count(&run->layer->in), out = hd_shape_count(&run->layer->out);
    struct part part;
    lay_out(&s, run->scratch, &part);
    memset(run->to, 0, (size_t)(run->rows * in) * sizeof *run->to);
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t first = 0; first < s.out_height; first += s.lines) {
            const int64_t lines = clip_lines(&s, first);
            read_outputs(&s, run->dy + r * out, first, lines, part.outputs);
            hd_linear_backward_data(s.out, s.depth, s.ld, run->weight, part.outputs, s.ld, false,
                                    NULL, 0, part.windows, s.ld);
            add_windows(&s, part.windows, first, lines, run->to + r * in);
        }
}

static void add(int64_t n, const float *from, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void conv_backward_weights(const struct hd_layer_run *run)
{
    const struct sizes s = sizes_of(run->layer);
    const int64_t in = hd_shape_count(&run->layer->in), out = hd_shape_count(&run->layer->out);
    struct part part;
    lay_out(&s, run->scratch, &part);
    memset(run->dweight, 0, (size_t)(s.out * s.depth) * sizeof *run->dweight);
    memset(run->dbias, 0, (size_t)s.out * sizeof *run->dbias);
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t first = 0; first < s.out_height; first += s.lines) {
            const int64_t lines = clip_lines(&s, first);
            gather_windows(&s, run->x + r * in, first, lines, part.windows);
            read_outputs(&s, run->dy + r * out, first, lines, part.outputs);
            hd_transpose(s.depth, lines * s.out_width, part.windows, s.ld, part.transposed,
                         s.depth);
            hd_linear_backward_weights(s.out, s.depth, lines * s.out_width, part.outputs, s.ld,
                                       part.transposed, s.depth, part.dweight, part.dbias);
            add(s.out * s.depth, part.dweight, run->dweight);
            add(s.out, part.dbias, run->dbias);
        }
}

const struct hd_layer_type hd_layer_conv = {
    .name = "conv",
    .fields = {{"channels", 1, 0}, {"kernel", 1, 0}, {"stride", 1, 1}, {"padding", 0, 0}},
    .infer = conv_infer,
    .list_tensors = conv_list_tensors,
    .count_scratch = conv_count_scratch,
    .forward = conv_forward,
    .backward_data = conv_backward_data,
    .backward_weights = conv_backward_weights,
    .gpu = HD_ON_GPU(hd_conv_on_gpu),
};
