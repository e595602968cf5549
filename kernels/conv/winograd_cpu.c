/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/activation.h"
#include "kernels/conv/matrix_internal.h"
#include "kernels/conv/winograd_internal.h"
#include "kernels/conv/winograd_lines_internal.h"
#include "runtime/base/alloc.h"

enum { SIDE = HD_WINOGRAD_SIDE, PLACES = SIDE * SIDE, BLOCK = HD_VEC * HD_VEC };
enum {
    CACHE_BYTES = 640 << 10,
    ROWS = 60 /* patches, at least, for which weights are read once */
};

/* The sizes of a pass, which is cut into some images and some output channels, so that each piece
 * stays in the second-level cache. */
struct tiling {
    struct hd_conv_fields f;
    int64_t out_height, out_width;
    int64_t channels,
        kernel;   /* channels and kernel of the input, and of it as phases of every s-th pixel */
    int64_t outs; /* side of a patch of the output */
    int64_t height, width; /* patches */
    int64_t images, group; /* images and output channels of a piece */
};

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct tiling tiling_of(const struct hd_conv_fields *f, int64_t max_batch)
{
    struct tiling j = {.f = *f,
                       .out_height = hd_conv_count_outputs(f, f->in_height),
                       .out_width = hd_conv_count_outputs(f, f->in_width),
                       .channels = f->in_channels * f->stride * f->stride,
                       .kernel = f->kernel / f->stride};
    j.outs = SIDE + 1 - j.kernel;
    j.height = (j.out_height + j.outs - 1) / j.outs;
    j.width = (j.out_width + j.outs - 1) / j.outs;
    const int64_t floats = CACHE_BYTES / (int64_t)sizeof(float), area = j.height * j.width;
    const int64_t fit = floats / (PLACES * area * j.channels), enough = (ROWS + area - 1) / area;
    j.images = hd_min(at_least(fit, enough), max_batch);
    const int64_t channels = floats / (PLACES * area * j.images) / 64 * 64;
    j.group = hd_min(at_least(channels, 64), f->out_channels);
    return j;
}

/* Returns the floats of an image. */
static int64_t in_size(const struct tiling *j)
{
    return j->f.in_channels * j->f.in_height * j->f.in_width;
}

static int64_t out_size(const struct tiling *j)
{
    return j->f.out_channels * j->out_height * j->out_width;
}

/* Without padding, 3 x 3 with few outputs is left to oneDNN, though it takes a little longer, so
 * that earlier nets keep their bits. */
bool hd_winograd_supports(const struct hd_conv_fields *f)
{
    const int64_t kernel = f->kernel / f->stride;
    const int64_t unit = kernel == 2 ? 32 : f->padding > 0 ? 16 : 64;
    return !f->bf16 && f->kernel % f->stride == 0 && (kernel == 2 || kernel == 3) &&
           (f->padding == 0 || f->stride == 1) && f->input == HD_NCHW16 &&
           f->in_channels % HD_VEC == 0 && f->out_channels % unit == 0;
}

/* The arrays in scratch, of floats. */
struct workspace {
    float *weights; /* [group][place][input channel][output channel of the group], or in
                       HD_CONV_DATA [group][place][output channel][input channel] */
    float *input;   /* [place][patch][input channel] */
    float *output;  /* [place][patch][output channel of the group] */
    int64_t bytes;
};

static struct workspace lay_out(const struct tiling *j, void *scratch)
{
    const int64_t rows = j->images * j->height * j->width;
    struct workspace workspace = {.weights = scratch};
    workspace.input = workspace.weights + PLACES * j->channels * j->f.out_channels;
    workspace.output = workspace.input + PLACES * rows * j->channels;
    workspace.bytes = (char *)(workspace.output + PLACES * rows * j->group) - (char *)scratch;
    return workspace;
}

static int64_t get_scratch_bytes(const struct hd_conv_fields *f, int64_t max_batch)
{
    static char origin[64] __attribute__((aligned(64)));
    const struct tiling j = tiling_of(f, max_batch);
    return lay_out(&j, origin).bytes;
}

/* -- Weights ----------------------------------------------------------------------------------- */

/* Returns the offset of the weights of an input channel and 16 output channels from `out` on; the
 * other places of the kernel are `stride` rows or columns apart. */
static int64_t weights_at(const struct tiling *j, int64_t out, int64_t in)
{
    const int64_t part = in / j->f.in_channels, channel = in % j->f.in_channels;
    const int64_t y = part / j->f.stride, x = part % j->f.stride, area = j->f.kernel * j->f.kernel;
    const int64_t block = out / HD_VEC * (j->f.in_channels / HD_VEC) + channel / HD_VEC;
    return (block * area + y * j->f.kernel + x) * BLOCK + channel % HD_VEC * HD_VEC;
}

/* Returns the offset of place i of the kernel from its first place. */
static int64_t tap(const struct tiling *j, int64_t i)
{
    return (i / j->kernel * j->f.kernel + i % j->kernel) * j->f.stride * BLOCK;
}

/* Transforms 16 output channels of an input channel at all places. */
HD_ALWAYS void expand_row(const struct tiling *j, int64_t kernel, const float *weights,
                          hd_vec u[PLACES])
{
    hd_vec g[PLACES], lines[PLACES];
    for (int64_t i = 0; i < kernel * kernel; i++)
        g[i / kernel * SIDE + i % kernel] = hd_vec_load(weights + tap(j, i));
    for (int64_t x = 0; x < kernel; x++)
        hd_winograd_expand_kernel(kernel, g + x, SIDE, lines + x);
    for (int64_t y = 0; y < SIDE; y++)
        hd_winograd_expand_kernel(kernel, lines + y * SIDE, 1, u + y * SIDE);
}

HD_ALWAYS void expand_weights(const struct tiling *j, int64_t kernel, const float *weights,
                              float *to)
{
    for (int64_t first = 0; first < j->f.out_channels; first += j->group) {
        const int64_t group = hd_min(j->group, j->f.out_channels - first);
        const int64_t place = j->channels * group;
        for (int64_t out = 0; out < group; out += HD_VEC)
            for (int64_t in = 0; in < j->channels; in++) {
                hd_vec u[PLACES];
                expand_row(j, kernel, weights + weights_at(j, first + out, in), u);
                for (int64_t i = 0; i < PLACES; i++)
                    hd_vec_store(to + i * place + in * group + out, u[i]);
            }
        to += PLACES * place;
    }
}

/* Transforms rows of output channels for HD_CONV_DATA, 16 input channels at once. */
HD_ALWAYS void expand_transposed(const struct tiling *j, int64_t kernel, const float *weights,
                                 float *to)
{
    for (int64_t out = 0; out < j->f.out_channels; out += HD_VEC)
        for (int64_t in = 0; in < j->channels; in += HD_VEC) {
            const int64_t first = out / j->group * j->group;
            const int64_t group = hd_min(j->group, j->f.out_channels - first);
            float *base = to + PLACES * j->channels * first + (out - first) * j->channels + in;
            hd_vec u[HD_VEC][PLACES];
            for (int64_t i = 0; i < HD_VEC; i++)
                expand_row(j, kernel, weights + weights_at(j, out, in + i), u[i]);
            for (int64_t k = 0; k < PLACES; k++) {
                hd_vec row[HD_VEC];
                for (int i = 0; i < HD_VEC; i++)
                    row[i] = u[i][k];
                hd_vec_transpose(row);
                for (int o = 0; o < HD_VEC; o++)
                    hd_vec_store(base + k * group * j->channels + o * j->channels, row[o]);
            }
        }
}

HD_ALWAYS void reduce_weights(const struct tiling *j, int64_t kernel, const float *from,
                              float *dweights)
{
    for (int64_t first = 0; first < j->f.out_channels; first += j->group) {
        const int64_t group = hd_min(j->group, j->f.out_channels - first);
        const int64_t place = j->channels * group;
        for (int64_t out = 0; out < group; out += HD_VEC)
            for (int64_t in = 0; in < j->channels; in++) {
                float *to = dweights + weights_at(j, first + out, in);
                hd_vec u[PLACES], g[PLACES];
                for (int64_t i = 0; i < PLACES; i++)
                    u[i] = hd_vec_load(from + i * place + in * group + out);
                for (int64_t x = 0; x < SIDE; x++)
                    hd_winograd_reduce_kernel(kernel, u + x, SIDE, g + x);
                for (int64_t y = 0; y < kernel; y++)
                    hd_winograd_reduce_kernel(kernel, g + y * SIDE, 1, u + y * SIDE);
                for (int64_t i = 0; i < kernel * kernel; i++)
                    hd_vec_store(to + tap(j, i), u[i / kernel * SIDE + i % kernel]);
            }
        from += PLACES * place;
    }
}

/* -- Patches ----------------------------------------------------------------------------------- */

/* The pixels of 16 channels of an image; in the input every s-th pixel from one on. Patches begin
 * in the padding. */
struct plane {
    int64_t at;            /* floats from the image's start */
    int64_t height, width; /* pixels in each direction */
    int64_t row, stride;   /* floats from one row, and from one pixel, to the next */
    int64_t padding;       /* pixels before the first row and column; 0 if the stride is not 1 */
};

/* Returns channels [c, c + 16) of the phases of every s-th pixel. */
static struct plane input_plane(const struct tiling *j, int64_t c)
{
    const int64_t part = c / j->f.in_channels, channel = c % j->f.in_channels;
    const int64_t y = part / j->f.stride, x = part % j->f.stride;
    const int64_t pixel = channel / HD_VEC * j->f.in_height * j->f.in_width + y * j->f.in_width + x;
    return (struct plane){.at = pixel * HD_VEC,
                          .height = j->f.in_height - y,
                          .width = j->f.in_width - x,
                          .row = j->f.in_width,
                          .stride = j->f.stride,
                          .padding = j->f.padding};
}

static struct plane output_plane(const struct tiling *j, int64_t c)
{
    return (struct plane){.at = c * j->out_height * j->out_width,
                          .height = j->out_height,
                          .width = j->out_width,
                          .row = j->out_width,
                          .stride = 1};
}

/* Calls `body` for the existing pixels of a patch from (y0, x0) on, with the offset `at`. */
#define FOR_PIXELS(p, y0, x0, side, body)                                                          \
    for (int64_t y = 0; y < (side); y++)                                                           \
        for (int64_t x = 0; x < (side); x++) {                                                     \
            const int64_t full_y = ((y0) + y) * (p)->stride, full_x = ((x0) + x) * (p)->stride;    \
            const int64_t at = (full_y * (p)->row + full_x) * HD_VEC;                              \
            if (inside ||                                                                          \
                (full_y >= 0 && full_y < (p)->height && full_x >= 0 && full_x < (p)->width))       \
                body;                                                                              \
        }

static bool is_inside(const struct plane *p, int64_t y0, int64_t x0, int64_t side)
{
    return y0 >= 0 && (y0 + side - 1) * p->stride < p->height && x0 >= 0 &&
           (x0 + side - 1) * p->stride < p->width;
}

/* Calls `body` for all patches of a plane, each with its first pixel (y0, x0) and the flag
 * `inside`, which the compiler knows: all its `side` x `side` pixels exist. */
#define FOR_PATCHES(j, p, outs, side, body)                                                        \
    for (int64_t y0 = -(p)->padding; y0 < (j)->height * (outs) - (p)->padding; y0 += (outs))       \
        for (int64_t x0 = -(p)->padding; x0 < (j)->width * (outs) - (p)->padding; x0 += (outs))    \
            if (is_inside(p, y0, x0, side)) {                                                      \
                const bool inside = true;                                                          \
                body;                                                                              \
            } else {                                                                               \
                const bool inside = false;                                                         \
                body;                                                                              \
            }

/* Loads a patch, with zeros for missing pixels. */
HD_ALWAYS void load_patch(const struct plane *p, const float *image, int64_t y0, int64_t x0,
                          int64_t side, bool inside, hd_vec *d)
{
    const hd_vec zero = {0};
    for (int64_t i = 0; i < PLACES && !inside; i++)
        d[i] = zero;
    FOR_PIXELS(p, y0, x0, side, d[y * SIDE + x] = hd_vec_load(image + p->at + at))
}

HD_ALWAYS void input_patch(const struct plane *p, const float *image, int64_t y0, int64_t x0,
                           bool inside, float *to, int64_t place)
{
    hd_vec d[PLACES];
    load_patch(p, image, y0, x0, SIDE, inside, d);
    HD_DOWN_AND_ACROSS(SIDE, hd_winograd_transform_input(d + i_, SIDE),
                       hd_winograd_transform_input(d + i_ * SIDE, 1))
    for (int64_t i = 0; i < PLACES; i++)
        hd_vec_store(to + i * place, d[i]);
}

static void input_patches(const struct tiling *j, int64_t images, const float *x, float *input)
{
    const int64_t area = j->height * j->width, place = images * area * j->channels;
    for (int64_t n = 0; n < images; n++, x += in_size(j), input += area * j->channels)
        for (int64_t c = 0; c < j->channels; c += HD_VEC) {
            const struct plane p = input_plane(j, c);
            float *to = input + c;
            FOR_PATCHES(j, &p, j->outs, SIDE, {
                input_patch(&p, x, y0, x0, inside, to, place);
                to += j->channels;
            })
        }
}

/* Transforms gradients of products back to the input's and adds them. */
HD_ALWAYS void restore_patch(const struct plane *p, const float *from, int64_t place, int64_t y0,
                             int64_t x0, bool inside, float *dx)
{
    hd_vec d[PLACES];
    for (int64_t i = 0; i < PLACES; i++)
        d[i] = hd_vec_load(from + i * place);
    HD_DOWN_AND_ACROSS(SIDE, hd_winograd_restore_input(d + i_, SIDE),
                       hd_winograd_restore_input(d + i_ * SIDE, 1))
    FOR_PIXELS(p, y0, x0, SIDE, {
        float *to = dx + p->at + at;
        hd_vec_store(to, hd_vec_load(to) + d[y * SIDE + x]);
    })
}

static void restore_patches(const struct tiling *j, int64_t images, const float *input, float *dx)
{
    const int64_t area = j->height * j->width, place = images * area * j->channels;
    for (int64_t n = 0; n < images; n++, dx += in_size(j), input += area * j->channels)
        for (int64_t c = 0; c < j->channels; c += HD_VEC) {
            const struct plane p = input_plane(j, c);
            const float *from = input + c;
            FOR_PATCHES(j, &p, j->outs, SIDE, {
                restore_patch(&p, from, place, y0, x0, inside, dx);
                from += j->channels;
            })
        }
}

/* Transforms products to outputs, with bias and perhaps ReLU. */
HD_ALWAYS void output_patch(const struct plane *p, int64_t outs, const float *from, int64_t place,
                            hd_vec bias, bool relu, int64_t y0, int64_t x0, bool inside,
                            float *image)
{
    hd_vec m[PLACES];
    for (int64_t i = 0; i < PLACES; i++)
        m[i] = hd_vec_load(from + i * place);
    HD_DOWN_AND_ACROSS(SIDE, hd_winograd_reduce_output(outs, m + i_, SIDE),
                       hd_winograd_reduce_output(outs, m + i_ * SIDE, 1))
    FOR_PIXELS(p, y0, x0, outs, {
        const hd_vec value = m[y * SIDE + x] + bias;
        hd_vec_store(image + p->at + at, relu ? hd_vec_rectify(value, value) : value);
    })
}

/* Writes the outputs of channels [first, first + group). */
HD_ALWAYS void output_patches(const struct tiling *j, int64_t outs, int64_t images, int64_t first,
                              int64_t group, const float *output, const float *bias, float *y)
{
    const int64_t area = j->height * j->width, place = images * area * group;
    for (int64_t n = 0; n < images; n++, y += out_size(j), output += area * group)
        for (int64_t c = 0; c < group; c += HD_VEC) {
            const struct plane p = output_plane(j, first + c);
            const hd_vec shift = hd_vec_load(bias + first + c);
            const float *from = output + c;
            FOR_PATCHES(j, &p, outs, outs, {
                output_patch(&p, outs, from, place, shift, j->f.relu, y0, x0, inside, y);
                from += group;
            })
        }
}

HD_ALWAYS void gradient_patch(const struct plane *p, int64_t outs, const float *image, int64_t y0,
                              int64_t x0, bool inside, float *to, int64_t place)
{
    hd_vec d[PLACES];
    load_patch(p, image, y0, x0, outs, inside, d);
    HD_DOWN_AND_ACROSS(outs, hd_winograd_expand_output(outs, d + i_, SIDE),
                       hd_winograd_expand_output(outs, d + i_ * SIDE, 1))
    for (int64_t i = 0; i < PLACES; i++)
        hd_vec_store(to + i * place, d[i]);
}

/* Transforms gradients of outputs to those of products, for channels [first, first + group). */
HD_ALWAYS void gradient_patches(const struct tiling *j, int64_t outs, int64_t images, int64_t first,
                                int64_t group, const float *dy, float *output)
{
    const int64_t area = j->height * j->width, place = images * area * group;
    for (int64_t n = 0; n < images; n++, dy += out_size(j), output += area * group)
        for (int64_t c = 0; c < group; c += HD_VEC) {
            const struct plane p = output_plane(j, first + c);
            float *to = output + c;
            FOR_PATCHES(j, &p, outs, outs, {
                gradient_patch(&p, outs, dy, y0, x0, inside, to, place);
                to += group;
            })
        }
}

static void gradients(const struct tiling *j, int64_t images, int64_t first, int64_t group,
                      const float *dy, float *output)
{
    if (j->outs == 2)
        gradient_patches(j, 2, images, first, group, dy, output);
    else
        gradient_patches(j, 3, images, first, group, dy, output);
}

static void outputs(const struct tiling *j, int64_t images, int64_t first, int64_t group,
                    const float *output, const float *bias, float *y)
{
    if (j->outs == 2)
        output_patches(j, 2, images, first, group, output, bias, y);
    else
        output_patches(j, 3, images, first, group, output, bias, y);
}

/* -- Passes ------------------------------------------------------------------------------------ */

static void begin_forward(const struct hd_conv_fields *f, const struct hd_conv_run *run)
{
    const struct tiling j = tiling_of(f, run->max_batch);
    if (j.kernel == 2)
        expand_weights(&j, 2, run->weights, lay_out(&j, run->scratch).weights);
    else
        expand_weights(&j, 3, run->weights, lay_out(&j, run->scratch).weights);
}

static void forward(const struct hd_conv_fields *f, const struct hd_conv_run *run, int64_t batch,
                    const void *x, void *y)
{
    const struct tiling j = tiling_of(f, run->max_batch);
    const struct workspace workspace = lay_out(&j, run->scratch);
    for (int64_t n = 0; n < batch; n += j.images) {
        const int64_t images = hd_min(batch - n, j.images), rows = images * j.height * j.width;
        const float *weights = workspace.weights;
        input_patches(&j, images, (const float *)x + n * in_size(&j), workspace.input);
        for (int64_t first = 0; first < f->out_channels; first += j.group) {
            const int64_t group = hd_min(j.group, f->out_channels - first);
            for (int64_t i = 0; i < PLACES; i++, weights += j.channels * group) {
                const struct hd_matrix a = {workspace.input + i * rows * j.channels, j.channels, 1};
                hd_matrix_multiply(rows, group, j.channels, &a, weights, group, false,
                                   workspace.output + i * rows * group, group);
            }
            outputs(&j, images, first, group, workspace.output, run->bias,
                    (float *)y + n * out_size(&j));
        }
    }
}

static void add_pixels(const struct tiling *j, int64_t batch, const float *dy, bool start,
                       float *dbias)
{
    const int64_t pixels = j->out_height * j->out_width, blocks = j->f.out_channels / HD_VEC;
    if (start)
        memset(dbias, 0, (size_t)j->f.out_channels * sizeof *dbias);
    for (int64_t n = 0; n < batch; n++)
        for (int64_t b = 0; b < blocks; b++) {
            hd_vec sum = hd_vec_load(dbias + b * HD_VEC);
            for (int64_t p = 0; p < pixels; p++, dy += HD_VEC)
                sum += hd_vec_load(dy);
            hd_vec_store(dbias + b * HD_VEC, sum);
        }
}

/* The gradient stays in the scratch until the end. */
static void backward_weights(const struct hd_conv_fields *f, const struct hd_conv_run *run,
                             int64_t batch, const void *x, const void *dy)
{
    const struct tiling j = tiling_of(f, run->max_batch);
    const struct workspace workspace = lay_out(&j, run->scratch);
    for (int64_t n = 0; n < batch; n += j.images) {
        const bool start = !run->begun && n == 0;
        const float *from = (const float *)dy + n * out_size(&j);
        const int64_t images = hd_min(batch - n, j.images), rows = images * j.height * j.width;
        float *weights = workspace.weights;
        add_pixels(&j, images, from, start, run->dbias);
        input_patches(&j, images, (const float *)x + n * in_size(&j), workspace.input);
        for (int64_t first = 0; first < f->out_channels; first += j.group) {
            const int64_t group = hd_min(j.group, f->out_channels - first);
            gradients(&j, images, first, group, from, workspace.output);
            for (int64_t i = 0; i < PLACES; i++, weights += j.channels * group) {
                const struct hd_matrix a = {workspace.input + i * rows * j.channels, 1, j.channels};
                hd_matrix_multiply(j.channels, group, rows, &a, workspace.output + i * rows * group,
                                   group, !start, weights, group);
            }
        }
    }
}

static void end_weights(const struct hd_conv_fields *f, const struct hd_conv_run *run)
{
    const struct tiling j = tiling_of(f, run->max_batch);
    if (j.kernel == 2)
        reduce_weights(&j, 2, lay_out(&j, run->scratch).weights, run->dweights);
    else
        reduce_weights(&j, 3, lay_out(&j, run->scratch).weights, run->dweights);
}

static void begin_data(const struct hd_conv_fields *f, const struct hd_conv_run *run)
{
    const struct tiling j = tiling_of(f, run->max_batch);
    if (j.kernel == 2)
        expand_transposed(&j, 2, run->weights, lay_out(&j, run->scratch).weights);
    else
        expand_transposed(&j, 3, run->weights, lay_out(&j, run->scratch).weights);
}

static void backward_data(const struct hd_conv_fields *f, const struct hd_conv_run *run,
                          int64_t batch, const void *dy, const void *y, void *dx)
{
    const struct tiling j = tiling_of(f, run->max_batch);
    const struct workspace workspace = lay_out(&j, run->scratch);
    for (int64_t n = 0; n < batch; n += j.images) {
        const int64_t images = hd_min(batch - n, j.images), rows = images * j.height * j.width;
        const int64_t size = images * in_size(&j);
        const float *weights = workspace.weights;
        float *to = (float *)dx + n * in_size(&j);
        for (int64_t first = 0; first < f->out_channels; first += j.group) {
            const int64_t group = hd_min(j.group, f->out_channels - first);
            gradients(&j, images, first, group, (const float *)dy + n * out_size(&j),
                      workspace.output);
            for (int64_t i = 0; i < PLACES; i++, weights += j.channels * group) {
                const struct hd_matrix a = {workspace.output + i * rows * group, group, 1};
                hd_matrix_multiply(rows, j.channels, group, &a, weights, j.channels, first > 0,
                                   workspace.input + i * rows * j.channels, j.channels);
            }
        }
        memset(to, 0, (size_t)size * sizeof *to);
        restore_patches(&j, images, workspace.input, to);
        if (y)
            hd_relu_backward(size, (const float *)y + n * in_size(&j), to);
    }
}

#define NAME "heddle winograd"

const struct hd_conv_own hd_winograd[HD_CONV_PASSES] = {
    [HD_CONV_FORWARD] = {NAME, get_scratch_bytes, .begin = begin_forward, .forward = forward},
    [HD_CONV_WEIGHTS] = {NAME, get_scratch_bytes, .end = end_weights,
                         .backward_weights = backward_weights},
    [HD_CONV_DATA] = {NAME, get_scratch_bytes, .begin = begin_data, .backward_data = backward_data},
};
