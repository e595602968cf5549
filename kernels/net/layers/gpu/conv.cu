/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by products of the weights with windows, of which columns are made for a part of the
 * rows at a time, so that they stay in the GPU's cache. A product has the channels of an output
 * side by side, so that outputs are transposed to planes and back. */
#include "kernels/net/layers/gpu/windows_internal.cuh"

enum { PART_FLOATS = 8 << 20 };

struct conv {
    struct hd_layer_windows w;
    int64_t out, depth; /* channels of an output, and numbers of a window */
    int64_t pixels, in; /* of an output's plane; numbers of an input */
    int64_t part;       /* rows, of which the last part may have fewer */
};

static struct conv conv_of(const struct hd_layer *layer, int64_t rows)
{
    const int64_t kernel = layer->fields[HD_CONV_KERNEL];
    struct conv c = {hd_layer_make_windows(layer, kernel, layer->fields[HD_CONV_STRIDE],
                                           layer->fields[HD_CONV_PADDING]),
                     layer->out.size[0],
                     layer->in.size[0] * kernel * kernel,
                     hd_shape_count_plane(&layer->out),
                     hd_shape_count(&layer->in),
                     rows};
    const int64_t max = PART_FLOATS / (c.pixels * c.depth);
    const int64_t parts = max > 0 ? (rows + max - 1) / max : rows;
    c.part = parts > 0 ? (rows + parts - 1) / parts : 1;
    return c;
}

/* Number i of the columns, [row][pixel][depth]. */
struct conv_column {
    struct hd_layer_windows w;
    const float *x;
    uint32_t depth;

    __device__ float operator()(uint32_t i) const
    {
        const struct hd_layer_pixel out = hd_layer_find_pixel(i / depth, w.out_height, w.out_width);
        const struct hd_layer_pixel in = hd_layer_find_pixel(i % depth, w.kernel, w.kernel);
        const int32_t y = out.y * w.stride - w.padding + in.y;
        const int32_t px = out.x * w.stride - w.padding + in.x;
        const uint32_t line =
            (out.image * (uint32_t)w.channels + in.image) * (uint32_t)w.height + (uint32_t)y;
        return w.is_inside(y, px) ? x[line * (uint32_t)w.width + (uint32_t)px] : 0;
    }
};

/* A pixel gets the derivatives by the windows that it is in. */
struct conv_derivative {
    struct hd_layer_windows w;
    const float *dcolumns;
    uint32_t depth;

    __device__ float operator()(uint32_t i) const
    {
        const struct hd_layer_pixel in = hd_layer_find_pixel(i, w.height, w.width);
        const uint32_t row = in.image / (uint32_t)w.channels;
        const int32_t channel = (int32_t)(in.image % (uint32_t)w.channels);
        float sum = 0;
        hd_layer_visit_windows(w, in.y, in.x, [&](int32_t oy, int32_t ox) {
            const int32_t ky = in.y + w.padding - oy * w.stride;
            const int32_t kx = in.x + w.padding - ox * w.stride;
            const uint32_t window =
                (row * (uint32_t)w.out_height + (uint32_t)oy) * (uint32_t)w.out_width +
                (uint32_t)ox;
            sum += dcolumns[window * depth + (uint32_t)((channel * w.kernel + ky) * w.kernel + kx)];
        });
        return sum;
    }
};

/* Number i of [row][across][down], of an array of [row][down][across]. */
struct conv_transposed {
    const float *from;
    uint32_t across, down;

    __device__ float operator()(uint32_t i) const
    {
        const uint32_t line = i / down;
        return from[(line / across * down + i % down) * across + line % across];
    }
};

/* Term t of the bias of channel i: the planes of all rows one after another. */
struct conv_bias_term {
    const float *dy;
    uint32_t out, pixels;

    __device__ float operator()(uint32_t i, uint32_t t) const
    {
        return dy[((int64_t)(t / pixels) * out + i) * pixels + t % pixels];
    }
};

/* -- Memory ------------------------------------------------------------------------------------ */

struct memory {
    float *columns; /* [part][pixels][depth], or derivatives by them */
    float *outputs; /* [part][pixels][out], likewise */
};

/* Returns the floats; sums of biases need them at other times. */
static int64_t lay_out(const struct conv &c, float *scratch, struct memory *memory)
{
    const int64_t unit = 64, columns = (c.part * c.pixels * c.depth + unit - 1) / unit * unit;
    *memory = {scratch, scratch ? scratch + columns : NULL};
    return columns + c.part * c.pixels * c.out;
}

static struct hd_layer_sums make_sums(const struct conv &c, int64_t rows)
{
    return hd_layer_make_sums(c.out, rows * c.pixels, true);
}

static int64_t count_scratch(const struct hd_layer *layer, int64_t rows)
{
    const struct conv c = conv_of(layer, rows);
    const int64_t sums = hd_layer_count_sums_scratch(make_sums(c, rows));
    struct memory unused;
    const int64_t parts = lay_out(c, NULL, &unused);
    return parts > sums ? parts : sums;
}

/* -- Passes ------------------------------------------------------------------------------------ */

static int make_columns(const struct hd_layer_run *run, const struct conv &c, int64_t first,
                        int64_t rows, float *columns)
{
    return hd_layer_map(run, conv_column{c.w, run->x + first * c.in, (uint32_t)c.depth},
                        rows * c.pixels * c.depth, columns);
}

/* Copies derivatives by the planes of an output. */
static int copy_outputs(const struct hd_layer_run *run, const struct conv &c, int64_t first,
                        int64_t rows, float *outputs)
{
    const int64_t n = c.pixels * c.out;
    return hd_layer_map(run,
                        conv_transposed{run->dy + first * n, (uint32_t)c.pixels, (uint32_t)c.out},
                        rows * n, outputs);
}

/* Calls step(first, rows) for each part of the rows. */
template <class Step>
static int visit_parts(const struct hd_layer_run *run, const struct conv &c, const Step &step)
{
    for (int64_t first = 0; first < run->rows; first += c.part)
        HD_TRY(step(first, run->rows - first < c.part ? run->rows - first : c.part));
    return HD_OK;
}

static int forward(const struct hd_layer_run *run)
{
    const struct conv c = conv_of(run->layer, run->rows);
    const int64_t n = c.pixels * c.out;
    struct memory m;
    lay_out(c, (float *)run->scratch, &m);
    return visit_parts(run, c, [&](int64_t first, int64_t rows) {
        HD_TRY(make_columns(run, c, first, rows, m.columns));
        HD_TRY(
            hd_layer_multiply_forward(run, rows * c.pixels, c.depth, c.out, m.columns, m.outputs));
        return hd_layer_map(run, conv_transposed{m.outputs, (uint32_t)c.out, (uint32_t)c.pixels},
                            rows * n, run->to + first * n);
    });
}

static int backward_data(const struct hd_layer_run *run)
{
    const struct conv c = conv_of(run->layer, run->rows);
    struct memory m;
    lay_out(c, (float *)run->scratch, &m);
    return visit_parts(run, c, [&](int64_t first, int64_t rows) {
        HD_TRY(copy_outputs(run, c, first, rows, m.outputs));
        HD_TRY(hd_layer_multiply_data(run, rows * c.pixels, c.depth, c.out, m.outputs, m.columns));
        return hd_layer_map(run, conv_derivative{c.w, m.columns, (uint32_t)c.depth}, rows * c.in,
                            run->to + first * c.in);
    });
}

static int backward_weights(const struct hd_layer_run *run)
{
    const struct conv c = conv_of(run->layer, run->rows);
    struct memory m;
    lay_out(c, (float *)run->scratch, &m);
    HD_TRY(hd_layer_sum(run, conv_bias_term{run->dy, (uint32_t)c.out, (uint32_t)c.pixels},
                        make_sums(c, run->rows), (float *)run->scratch, run->dbias));
    return visit_parts(run, c, [&](int64_t first, int64_t rows) {
        HD_TRY(make_columns(run, c, first, rows, m.columns));
        HD_TRY(copy_outputs(run, c, first, rows, m.outputs));
        return hd_layer_multiply_weights(run, rows * c.pixels, c.depth, c.out, m.outputs, m.columns,
                                         first > 0);
    });
}

const struct hd_layer_on_gpu hd_conv_on_gpu = {count_scratch, forward, backward_data,
                                               backward_weights};
