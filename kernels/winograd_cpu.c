/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/packed_linear.h"
#include "kernels/vector_internal.h"
#include "kernels/winograd_internal.h"

enum { MOST = 4 /* side of a patch */, BLOCK = HD_VEC * HD_VEC, CACHE_BYTES = 640 << 10 };
enum { ROWS = 96 /* patches, at least: as many share what is read of the weights */ };

/* What is to be done, in pieces that stay in the second cache: some images, some output channels.
 */
struct job {
    struct hd_conv_fields f;
    int64_t out_height, out_width;
    int64_t channels, kernel; /* of the input and on it, when every s-th pixel is an image */
    int64_t side;             /* of a patch of the input: kernel + 1 */
    int64_t places;           /* of a patch: products of 2 x 2 outputs */
    int64_t height, width;    /* patches */
    int64_t images;           /* at a time */
    struct hd_packed group;   /* input channels by the output channels at a time */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct job job_of(const struct hd_conv_fields *f, int64_t batch)
{
    struct job j = {.f = *f,
                    .out_height = (f->in_height - f->kernel) / f->stride + 1,
                    .out_width = (f->in_width - f->kernel) / f->stride + 1,
                    .channels = f->in_channels * f->stride * f->stride,
                    .kernel = f->kernel / f->stride};
    j.side = j.kernel + 1;
    j.places = j.side * j.side;
    j.height = (j.out_height + 1) / 2;
    j.width = (j.out_width + 1) / 2;
    const int64_t floats = CACHE_BYTES / (int64_t)sizeof(float), area = j.height * j.width;
    const int64_t patches = j.places * area, enough = (ROWS + area - 1) / area;
    const int64_t images = floats / (patches * j.channels);
    j.images = least(images < enough ? enough : images, batch);
    const int64_t channels = floats / (patches * j.images) / 64 * 64;
    j.group =
        (struct hd_packed){f->in_channels, least(channels < 64 ? 64 : channels, f->out_channels)};
    return j;
}

bool hd_winograd_allows(const struct hd_conv_fields *f)
{
    const int64_t kernel = f->kernel / f->stride;
    return !f->bf16 && f->kernel % f->stride == 0 && (kernel == 2 || kernel == 3) &&
           f->input == HD_NCHW16 && f->in_channels % HD_PACK_IN == 0 && f->out_channels % 64 == 0;
}

/* Output channels of the group from `first` on. */
static struct hd_packed group_at(const struct job *j, int64_t first)
{
    return (struct hd_packed){j->channels, least(j->group.out, j->f.out_channels - first)};
}

/* Scratch, in floats. */
struct room {
    float *weights; /* [group of output channels][place][packed] */
    float *input;   /* [place][patch][input channel] */
    float *output;  /* [place][patch][output channel of the group] */
    float *part;    /* one place of the weights' gradient, of some images */
    float *zero;    /* [output channel of the group] */
    char *packed;   /* of the products */
    int64_t bytes;
};

static struct room lay_out(const struct job *j, void *scratch)
{
    const int64_t rows = j->images * j->height * j->width;
    float *at = scratch;
    struct room room = {.weights = at};
    room.input = room.weights + j->places * j->channels * j->f.out_channels;
    room.output = room.input + j->places * rows * j->channels;
    room.part = room.output + j->places * rows * j->group.out;
    room.zero = room.part + j->channels * j->group.out;
    room.packed = (char *)(room.zero + j->group.out);
    room.bytes = (room.packed - (char *)scratch) + hd_packed_scratch(&j->group, rows);
    return room;
}

int64_t hd_winograd_scratch(const struct hd_conv_fields *f, int64_t batch)
{
    static char origin[64] __attribute__((aligned(64)));
    const struct job j = job_of(f, batch);
    return lay_out(&j, origin).bytes;
}

/* -- The transforms, of a line of vectors `step` apart; `kernel` is 2 or 3 ------------------------
 */

/* G: a line of the kernel becomes one of products. */
HD_INLINE void expand_kernel(int64_t kernel, const hd_vec *g, int step, hd_vec *u)
{
    if (kernel == 2) {
        u[0] = g[0];
        u[step] = g[0] + g[step];
        u[2 * step] = g[step];
    } else {
        const hd_vec ends = g[0] + g[2 * step], middle = g[step];
        u[0] = g[0];
        u[step] = (ends + middle) * 0.5f;
        u[2 * step] = (ends - middle) * 0.5f;
        u[3 * step] = g[2 * step];
    }
}

/* G transposed. */
HD_INLINE void reduce_kernel(int64_t kernel, const hd_vec *u, int step, hd_vec *g)
{
    if (kernel == 2) {
        const hd_vec first = u[0] + u[step], second = u[step] + u[2 * step];
        g[0] = first;
        g[step] = second;
    } else {
        const hd_vec even = (u[step] + u[2 * step]) * 0.5f, odd = (u[step] - u[2 * step]) * 0.5f;
        g[0] = u[0] + even;
        g[step] = odd;
        g[2 * step] = even + u[3 * step];
    }
}

/* B transposed: a line of the input, in place. */
HD_INLINE void transform_input(int64_t kernel, hd_vec *d, int step)
{
    if (kernel == 2) {
        d[0] = d[0] - d[step];
        d[2 * step] = d[step] - d[2 * step];
    } else {
        const hd_vec d1 = d[step], d2 = d[2 * step];
        d[0] = d[0] - d2;
        d[step] = d1 + d2;
        d[2 * step] = d2 - d1;
        d[3 * step] = d1 - d[3 * step];
    }
}

/* A transposed: products to two outputs. */
HD_INLINE void reduce_output(int64_t kernel, const hd_vec *m, int step, hd_vec *first,
                             hd_vec *second)
{
    if (kernel == 2) {
        *first = m[0] + m[step];
        *second = m[step] - m[2 * step];
    } else {
        *first = m[0] + m[step] + m[2 * step];
        *second = m[step] - m[2 * step] - m[3 * step];
    }
}

/* A: gradients of two outputs to those of products. */
HD_INLINE void expand_output(int64_t kernel, hd_vec first, hd_vec second, int step, hd_vec *m)
{
    m[0] = first;
    m[step] = first + second;
    if (kernel == 2) {
        m[2 * step] = -second;
    } else {
        m[2 * step] = first - second;
        m[3 * step] = -second;
    }
}

/* -- Weights -------------------------------------------------------------------------------------
 */

/* Where the weights of an input channel and 16 output channels from `out` on start; the other
 * places of the kernel are `stride` rows or columns apart. */
static int64_t weights_at(const struct job *j, int64_t out, int64_t in)
{
    const int64_t part = in / j->f.in_channels, channel = in % j->f.in_channels;
    const int64_t y = part / j->f.stride, x = part % j->f.stride, area = j->f.kernel * j->f.kernel;
    const int64_t block = out / HD_VEC * (j->f.in_channels / HD_VEC) + channel / HD_VEC;
    return (block * area + y * j->f.kernel + x) * BLOCK + channel % HD_VEC * HD_VEC;
}

/* From the first place of the kernel to place i. */
static int64_t tap(const struct job *j, int64_t kernel, int64_t i)
{
    return (i / kernel * j->f.kernel + i % kernel) * j->f.stride * BLOCK;
}

HD_INLINE void expand_row(const struct job *j, int64_t kernel, const float *weights, int64_t place,
                          float *expanded)
{
    const int64_t side = kernel + 1;
    hd_vec g[MOST * MOST], u[MOST * MOST];
    for (int64_t i = 0; i < kernel * kernel; i++)
        g[i / kernel * MOST + i % kernel] = hd_vec_load(weights + tap(j, kernel, i));
    for (int64_t x = 0; x < kernel; x++)
        expand_kernel(kernel, g + x, MOST, u + x);
    for (int64_t y = 0; y < side; y++)
        expand_kernel(kernel, u + y * MOST, 1, g + y * MOST);
    for (int64_t i = 0; i < side * side; i++)
        hd_vec_store(expanded + i * place, g[i / side * MOST + i % side]);
}

HD_INLINE void reduce_row(const struct job *j, int64_t kernel, const float *expanded, int64_t place,
                          float *dweights)
{
    const int64_t side = kernel + 1;
    hd_vec u[MOST * MOST], g[MOST * MOST];
    for (int64_t i = 0; i < side * side; i++)
        u[i / side * MOST + i % side] = hd_vec_load(expanded + i * place);
    for (int64_t x = 0; x < side; x++)
        reduce_kernel(kernel, u + x, MOST, g + x);
    for (int64_t y = 0; y < kernel; y++)
        reduce_kernel(kernel, g + y * MOST, 1, u + y * MOST);
    for (int64_t i = 0; i < kernel * kernel; i++)
        hd_vec_store(dweights + tap(j, kernel, i), u[i / kernel * MOST + i % kernel]);
}

HD_INLINE void expand_weights(const struct job *j, int64_t kernel, const float *weights,
                              float *expanded)
{
    for (int64_t first = 0; first < j->f.out_channels; first += j->group.out) {
        const struct hd_packed group = group_at(j, first);
        const int64_t place = hd_packed_weights(&group);
        for (int64_t out = 0; out < group.out; out += HD_VEC)
            for (int64_t in = 0; in < group.in; in++)
                expand_row(j, kernel, weights + weights_at(j, first + out, in), place,
                           expanded + hd_packed_at(&group, out, in));
        expanded += j->places * place;
    }
}

HD_INLINE void reduce_weights(const struct job *j, int64_t kernel, const float *expanded,
                              float *dweights)
{
    for (int64_t first = 0; first < j->f.out_channels; first += j->group.out) {
        const struct hd_packed group = group_at(j, first);
        const int64_t place = hd_packed_weights(&group);
        for (int64_t out = 0; out < group.out; out += HD_VEC)
            for (int64_t in = 0; in < group.in; in++)
                reduce_row(j, kernel, expanded + hd_packed_at(&group, out, in), place,
                           dweights + weights_at(j, first + out, in));
        expanded += j->places * place;
    }
}

/* -- Patches -------------------------------------------------------------------------------------
 */

/* Every s-th pixel of 16 channels of an image. */
struct plane {
    const float *at;
    int64_t height, width; /* of the image, from the first of the pixels on */
    int64_t row, stride;   /* pixels from one row, and from one pixel, to the next */
};

/* One patch, zero beyond the image. */
HD_INLINE void load_patch(const struct plane *p, int64_t y0, int64_t x0, int64_t side, hd_vec *d)
{
    const hd_vec zero = {0};
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            const int64_t full_y = (y0 + y) * p->stride, full_x = (x0 + x) * p->stride;
            d[y * MOST + x] = full_y < p->height && full_x < p->width
                                  ? hd_vec_load(p->at + (full_y * p->row + full_x) * HD_VEC)
                                  : zero;
        }
}

/* Of channel c of the images of every s-th pixel. */
static struct plane input_plane(const struct job *j, const float *image, int64_t c)
{
    const int64_t part = c / j->f.in_channels, channel = c % j->f.in_channels;
    const int64_t y = part / j->f.stride, x = part % j->f.stride;
    const int64_t pixel = channel / HD_VEC * j->f.in_height * j->f.in_width + y * j->f.in_width + x;
    return (struct plane){image + pixel * HD_VEC, j->f.in_height - y, j->f.in_width - x,
                          j->f.in_width, j->f.stride};
}

HD_INLINE void input_patches(const struct job *j, int64_t kernel, int64_t images, const float *x,
                             float *input)
{
    const int64_t side = kernel + 1, channels = j->channels;
    const int64_t image = j->f.in_height * j->f.in_width * j->f.in_channels;
    const int64_t place = images * j->height * j->width * channels;
    float *to = input;
    for (int64_t n = 0; n < images; n++)
        for (int64_t patch = 0; patch < j->height * j->width; patch++, to += channels)
            for (int64_t c = 0; c < channels; c += HD_VEC) {
                const struct plane plane = input_plane(j, x + n * image, c);
                hd_vec d[MOST * MOST];
                load_patch(&plane, patch / j->width * 2, patch % j->width * 2, side, d);
                for (int64_t i = 0; i < side; i++)
                    transform_input(kernel, d + i, MOST);
                for (int64_t y = 0; y < side; y++)
                    transform_input(kernel, d + y * MOST, 1);
                for (int64_t i = 0; i < side * side; i++)
                    hd_vec_store(to + i * place + c, d[i / side * MOST + i % side]);
            }
}

/* Products of a group of channels from `first` on to outputs, with bias and ReLU. */
HD_INLINE void output_patches(const struct job *j, int64_t kernel, int64_t images, int64_t first,
                              int64_t group, const float *output, const float *bias, float *y)
{
    const int64_t side = kernel + 1, plane = j->out_height * j->out_width * HD_VEC;
    const int64_t place = images * j->height * j->width * group;
    for (int64_t n = 0; n < images; n++)
        for (int64_t patch = 0; patch < j->height * j->width; patch++, output += group)
            for (int64_t c = 0; c < group; c += HD_VEC) {
                const int64_t y0 = patch / j->width * 2, x0 = patch % j->width * 2;
                float *to = y + (n * j->f.out_channels + first + c) / HD_VEC * plane;
                hd_vec m[MOST * MOST], lines[2 * MOST], out[4];
                for (int64_t i = 0; i < side * side; i++)
                    m[i / side * MOST + i % side] = hd_vec_load(output + i * place + c);
                for (int64_t i = 0; i < side; i++)
                    reduce_output(kernel, m + i, MOST, &lines[i], &lines[MOST + i]);
                reduce_output(kernel, lines, 1, &out[0], &out[1]);
                reduce_output(kernel, lines + MOST, 1, &out[2], &out[3]);
                for (int i = 0; i < 4; i++) {
                    const hd_vec value = out[i] + hd_vec_load(bias + first + c);
                    if (y0 + i / 2 < j->out_height && x0 + i % 2 < j->out_width)
                        hd_vec_store(to + ((y0 + i / 2) * j->out_width + x0 + i % 2) * HD_VEC,
                                     hd_vec_rectify(value, value));
                }
            }
}

/* Gradients of outputs to those of products. */
HD_INLINE void gradient_patches(const struct job *j, int64_t kernel, int64_t images, int64_t first,
                                int64_t group, const float *dy, float *output)
{
    const int64_t side = kernel + 1, plane = j->out_height * j->out_width * HD_VEC;
    const int64_t place = images * j->height * j->width * group;
    for (int64_t n = 0; n < images; n++)
        for (int64_t patch = 0; patch < j->height * j->width; patch++, output += group)
            for (int64_t c = 0; c < group; c += HD_VEC) {
                hd_vec d[MOST * MOST], lines[2 * MOST], m[MOST * MOST];
                const struct plane source = {dy + (n * j->f.out_channels + first + c) / HD_VEC *
                                                      plane,
                                             j->out_height, j->out_width, j->out_width, 1};
                load_patch(&source, patch / j->width * 2, patch % j->width * 2, 2, d);
                expand_output(kernel, d[0], d[1], 1, lines);
                expand_output(kernel, d[MOST], d[MOST + 1], 1, lines + MOST);
                for (int64_t i = 0; i < side; i++)
                    expand_output(kernel, lines[i], lines[MOST + i], MOST, m + i);
                for (int64_t i = 0; i < side * side; i++)
                    hd_vec_store(output + i * place + c, m[i / side * MOST + i % side]);
            }
}

/* -- Passes --------------------------------------------------------------------------------------
 */

void hd_winograd_begin(const struct hd_conv_fields *f, int64_t most, const float *weights,
                       void *scratch)
{
    const struct job j = job_of(f, most);
    const struct room room = lay_out(&j, scratch);
    memset(room.zero, 0, (size_t)j.group.out * sizeof *room.zero);
    if (j.kernel == 2)
        expand_weights(&j, 2, weights, room.weights);
    else
        expand_weights(&j, 3, weights, room.weights);
}

HD_INLINE void forward(const struct job *j, int64_t kernel, int64_t batch, const float *x,
                       const float *bias, float *y, const struct room *room)
{
    const int64_t in_image = j->f.in_channels * j->f.in_height * j->f.in_width;
    const int64_t out_image = j->f.out_channels * j->out_height * j->out_width;
    for (int64_t n = 0; n < batch; n += j->images) {
        const int64_t images = least(batch - n, j->images), rows = images * j->height * j->width;
        const float *expanded = room->weights;
        input_patches(j, kernel, images, x + n * in_image, room->input);
        for (int64_t first = 0; first < j->f.out_channels; first += j->group.out) {
            const struct hd_packed group = group_at(j, first);
            for (int64_t i = 0; i < j->places; i++, expanded += hd_packed_weights(&group))
                hd_packed_forward(&group, rows, expanded, room->zero,
                                  room->input + i * rows * group.in, group.in,
                                  room->output + i * rows * group.out, group.out);
            output_patches(j, kernel, images, first, group.out, room->output, bias,
                           y + n * out_image);
        }
    }
}

void hd_winograd_forward(const struct hd_conv_fields *f, int64_t most, int64_t batch,
                         const float *x, const float *bias, float *y, void *scratch)
{
    const struct job j = job_of(f, most);
    const struct room room = lay_out(&j, scratch);
    if (j.kernel == 2)
        forward(&j, 2, batch, x, bias, y, &room);
    else
        forward(&j, 3, batch, x, bias, y, &room);
}

static void add_pixels(const struct job *j, int64_t batch, const float *dy, bool start,
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

static void add(int64_t n, const float *restrict part, bool start, float *restrict sum)
{
    if (start)
        memcpy(sum, part, (size_t)n * sizeof *sum);
    for (int64_t i = 0; i < n && !start; i++)
        sum[i] += part[i];
}

HD_INLINE void backward(const struct job *j, int64_t kernel, int64_t batch, const float *x,
                        const float *dy, bool start, float *dbias, const struct room *room)
{
    const int64_t in_image = j->f.in_channels * j->f.in_height * j->f.in_width;
    const int64_t out_image = j->f.out_channels * j->out_height * j->out_width;
    for (int64_t n = 0; n < batch; n += j->images, start = false) {
        const int64_t images = least(batch - n, j->images), rows = images * j->height * j->width;
        float *expanded = room->weights;
        add_pixels(j, images, dy + n * out_image, start, dbias);
        input_patches(j, kernel, images, x + n * in_image, room->input);
        for (int64_t first = 0; first < j->f.out_channels; first += j->group.out) {
            const struct hd_packed group = group_at(j, first);
            const int64_t size = hd_packed_weights(&group);
            gradient_patches(j, kernel, images, first, group.out, dy + n * out_image, room->output);
            for (int64_t i = 0; i < j->places; i++, expanded += size) {
                hd_packed_backward_weights(&group, rows, room->output + i * rows * group.out,
                                           group.out, room->input + i * rows * group.in, group.in,
                                           0, hd_packed_in_blocks(&group), room->part,
                                           room->packed);
                add(size, room->part, start, expanded);
            }
        }
    }
}

void hd_winograd_weights(const struct hd_conv_fields *f, int64_t most, int64_t batch,
                         const float *x, const float *dy, bool start, float *dbias, void *scratch)
{
    const struct job j = job_of(f, most);
    const struct room room = lay_out(&j, scratch);
    if (j.kernel == 2)
        backward(&j, 2, batch, x, dy, start, dbias, &room);
    else
        backward(&j, 3, batch, x, dy, start, dbias, &room);
}

void hd_winograd_weights_end(const struct hd_conv_fields *f, int64_t most, float *dweights,
                             void *scratch)
{
    const struct job j = job_of(f, most);
    const struct room room = lay_out(&j, scratch);
    if (j.kernel == 2)
        reduce_weights(&j, 2, room.weights, dweights);
    else
        reduce_weights(&j, 3, room.weights, dweights);
}
