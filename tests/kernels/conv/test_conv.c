/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by every implementation against sums in double, on numbers that bf16 holds exactly,
 * so that both precisions have the same inputs; batches are processed at once or in several
 * parts. */
#include "kernels/common/amx.h"
#include "kernels/conv/conv.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/guarded.h"

#include <string.h>

static const struct {
    int64_t in, height, width, out, kernel, stride, padding;
} sizes[] = {
    {32, 9, 11, 64, 3, 1, 0},  /* minimal filtering of 3 x 3, patches that stick out */
    {64, 8, 7, 128, 2, 1, 0},  /* of 2 x 2 */
    {32, 12, 10, 64, 4, 2, 0}, /* of 2 x 2 on every second pixel */
    {16, 13, 20, 32, 4, 2, 0}, /* with few channels */
    {48, 11, 13, 32, 4, 2, 0}, /* a last column that no output meets; blocks of 32 and 16 */
    {16, 9, 9, 16, 3, 1, 0},   /* single blocks */
    {80, 6, 7, 48, 3, 3, 0},   /* kernel and stride alike; odd numbers of blocks */
    {5, 9, 8, 7, 3, 1, 0},     /* no whole block */
    {32, 6, 9, 64, 3, 1, 1},   /* minimal filtering of 3 x 3 with padding */
    {32, 5, 4, 32, 2, 1, 2},   /* of 2 x 2 with patches wholly in the padding */
    {32, 8, 8, 32, 4, 2, 1},   /* padding that minimal filtering leaves to oneDNN */
    {24, 9, 10, 40, 3, 1, 1},  /* half a block more */
    {1, 12, 11, 8, 5, 2, 2},   /* one channel, whose layouts are alike */
    {3, 19, 23, 16, 7, 4, 0},  /* odd kernels */
    {20, 10, 9, 6, 1, 1, 0},   /* single pixels */
    {4, 84, 84, 16, 3, 1, 1},  /* IMPALA's first */
    {16, 42, 42, 32, 3, 1, 1}, /* its others, behind pooling */
    {32, 21, 21, 32, 3, 1, 1}, /* (likewise) */
    {32, 11, 11, 32, 3, 1, 1}, /* (likewise) */
    {4, 84, 84, 32, 8, 4, 0},  /* DeepMind's for Atari */
    {32, 20, 20, 64, 4, 2, 0}, /* (likewise) */
    {64, 9, 9, 64, 3, 1, 0},   /* (likewise) */
};
enum { N_LAYOUTS = HD_NCHW16 + 1, N_SIZES = sizeof sizes / sizeof *sizes };
enum { SMALL = 300 /* pixels */ };
static const struct {
    int64_t all, part;
    bool relu; /* behind the convolution, and before it */
} batches[] = {{1, 1, true}, {3, 2, false}, {41, 41, true}, {41, 7, false}};
enum { N_BATCHES = sizeof batches / sizeof *batches, N_SMALL_BATCHES = 2 };

struct data {
    struct hd_conv *conv;
    struct hd_conv_fields f;
    enum hd_layout output;
    int64_t out_height, out_width, batch;
    float *row_major, *bias; /* [out][in][y][x], [out] */
    float *x, *dy;           /* [batch][channel][y][x] */
    float *weights;
    hd_bf16 *shadow;
    void *x_there, *dy_there, *y, *dx; /* in the convolution's layout */
    float *dw, *dbias;
};

/* Returns the index of an element of an observation in a layout. */
static int64_t place(enum hd_layout layout, int64_t channels, int64_t height, int64_t width,
                     int64_t c, int64_t y, int64_t x)
{
    switch (layout) {
    case HD_NHWC:
        return (y * width + x) * channels + c;
    case HD_NCHW16:
        return ((c / 16 * height + y) * width + x) * 16 + c % 16;
    default:
        return (c * height + y) * width + x;
    }
}

static float get(const struct data *d, const void *memory, int64_t at)
{
    return d->f.bf16 ? hd_bf16_to_float(((const hd_bf16 *)memory)[at])
                     : ((const float *)memory)[at];
}

/* Fills the inputs with random numbers and some zeros, row-major and in the convolution's
 * layout. */
static void fill(const struct data *d, enum hd_layout layout, int64_t channels, int64_t height,
                 int64_t width, int64_t row, uint64_t stream, float *row_major, void *there)
{
    struct hd_rng rng = hd_rng_make(3, stream, 0, 0, 0);
    uint32_t i = 0;
    for (int64_t n = 0; n < d->batch; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t y = 0; y < height; y++)
                for (int64_t x = 0; x < width; x++, i++) {
                    const float number = (float)hd_rng_draw_uniform(&rng, i) - 0.5f;
                    const hd_bf16 value = hd_bf16_from_float(i % 7 == 0 ? 0 : number);
                    const int64_t at = n * row + place(layout, channels, height, width, c, y, x);
                    row_major[i] = hd_bf16_to_float(value);
                    if (d->f.bf16)
                        ((hd_bf16 *)there)[at] = value;
                    else
                        ((float *)there)[at] = row_major[i];
                }
}

static int64_t activation_bytes(const struct data *d, int64_t elements)
{
    return d->batch * elements * (int64_t)(d->f.bf16 ? sizeof(hd_bf16) : sizeof(float));
}

static struct data make(int size, int64_t batch, bool relu, enum hd_layout input, bool bf16)
{
    struct data d = {.batch = batch,
                     .f = {.in_channels = sizes[size].in,
                           .in_height = sizes[size].height,
                           .in_width = sizes[size].width,
                           .out_channels = sizes[size].out,
                           .kernel = sizes[size].kernel,
                           .stride = sizes[size].stride,
                           .padding = sizes[size].padding,
                           .input = input,
                           .relu = relu,
                           .bf16 = bf16}};
    const int64_t area = d.f.kernel * d.f.kernel, n = d.f.out_channels * d.f.in_channels * area;
    struct hd_rng rng = hd_rng_make(2, (uint64_t)size, 0, 0, 0);
    ck_assert_int_eq(hd_conv_create_fast(&d.f, &d.conv), HD_OK);
    d.output = hd_conv_get_output(d.conv, &d.out_height, &d.out_width);
    const int64_t in_row = hd_conv_count_input_elements(d.conv);
    const int64_t out_row = hd_conv_count_output_elements(d.conv);
    d.row_major = test_alloc(n, 4);
    d.bias = test_alloc(d.f.out_channels, 4);
    for (int64_t i = 0; i < n; i++)
        d.row_major[i] = hd_bf16_to_float(
            hd_bf16_from_float((float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5f));
    for (int64_t i = 0; i < d.f.out_channels; i++)
        d.bias[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)(n + i)) - 0.5f;
    d.x = test_alloc(batch * d.f.in_channels * d.f.in_height * d.f.in_width, 4);
    d.dy = test_alloc(batch * d.f.out_channels * d.out_height * d.out_width, 4);
    d.x_there = guarded(activation_bytes(&d, in_row));
    d.dx = guarded(activation_bytes(&d, in_row));
    d.y = guarded(activation_bytes(&d, out_row));
    d.dy_there = guarded(activation_bytes(&d, out_row));
    d.weights = guarded(hd_conv_count_weights(d.conv) * 4);
    d.dw = guarded(hd_conv_count_weights(d.conv) * 4);
    d.dbias = guarded(d.f.out_channels * 4);
    d.shadow = guarded(hd_conv_count_shadow(d.conv) * 2);
    fill(&d, d.f.input, d.f.in_channels, d.f.in_height, d.f.in_width, in_row, 1, d.x, d.x_there);
    fill(&d, d.output, d.f.out_channels, d.out_height, d.out_width, out_row, 2, d.dy, d.dy_there);
    ck_assert_int_eq(hd_conv_import(d.conv, d.row_major, d.weights), HD_OK);
    hd_conv_refresh_shadow(d.conv, d.weights, 0, hd_conv_count_weights(d.conv), d.shadow);
    return d;
}

static void run_part(struct data *d, struct hd_conv_run *run, int64_t first, int64_t n)
{
    const size_t size = d->f.bf16 ? 2 : 4;
    const size_t in = (size_t)(first * hd_conv_count_input_elements(d->conv)) * size;
    const size_t out = (size_t)(first * hd_conv_count_output_elements(d->conv)) * size;
    char *x = (char *)d->x_there + in, *dx = (char *)d->dx + in;
    char *y = (char *)d->y + out, *dy = (char *)d->dy_there + out;
    const char *mask = d->f.relu ? x : NULL;
    int status = run->pass == HD_CONV_FORWARD   ? hd_conv_forward(run, n, x, y)
                 : run->pass == HD_CONV_WEIGHTS ? hd_conv_backward_weights(run, n, x, dy)
                                                : hd_conv_backward_data(run, n, dy, mask, dx);
    ck_assert_int_eq(status, HD_OK);
}

/* Runs a pass in parts of at most `max_batch` observations. */
static void run_pass(struct data *d, enum hd_conv_pass pass, int64_t max_batch)
{
    const int64_t bytes = hd_conv_get_scratch_bytes(d->conv, pass, max_batch);
    const bool shadow = d->f.bf16 && pass == HD_CONV_FORWARD;
    struct hd_conv_run run = {.conv = d->conv,
                              .pass = pass,
                              .max_batch = max_batch,
                              .weights = shadow ? (void *)d->shadow : d->weights,
                              .bias = d->bias,
                              .dweights = d->dw,
                              .dbias = d->dbias,
                              .scratch = guarded(bytes)};
    memset(run.scratch, 0xFF, (size_t)bytes);
    ck_assert_int_eq(hd_conv_begin(&run), HD_OK);
    for (int64_t first = 0; first < d->batch; first += max_batch)
        run_part(d, &run, first, d->batch - first < max_batch ? d->batch - first : max_batch);
    ck_assert_int_eq(hd_conv_end(&run), HD_OK);
    check_guard(run.scratch, bytes);
}

static void run(struct data *d, int64_t max_batch)
{
    const int64_t in_row = hd_conv_count_input_elements(d->conv);
    const int64_t out_row = hd_conv_count_output_elements(d->conv);
    for (int pass = 0; pass < HD_CONV_PASSES; pass++)
        run_pass(d, (enum hd_conv_pass)pass, max_batch);
    check_guard(d->y, activation_bytes(d, out_row));
    check_guard(d->dx, activation_bytes(d, in_row));
    check_guard(d->dw, hd_conv_count_weights(d->conv) * 4);
    check_guard(d->dbias, d->f.out_channels * 4);
}

/* Adds what output o, at place (r, s) of channel c of observation n, takes from row ky of the
 * windows of input channel i. */
static void define_row(const struct data *d, int64_t n, int64_t c, int64_t r, int64_t s, int64_t i,
                       int64_t ky, int64_t o, double *y, double *dw, double *dx)
{
    const struct hd_conv_fields *f = &d->f;
    const int64_t row = r * f->stride + ky - f->padding, first = s * f->stride - f->padding;
    const int64_t w = ((c * f->in_channels + i) * f->kernel + ky) * f->kernel;
    const int64_t x = ((n * f->in_channels + i) * f->in_height + row) * f->in_width + first;
    for (int64_t kx = 0; kx < f->kernel && row >= 0 && row < f->in_height; kx++) {
        if (first + kx < 0 || first + kx >= f->in_width)
            continue;
        y[o] += (double)d->row_major[w + kx] * d->x[x + kx];
        dw[w + kx] += (double)d->dy[o] * d->x[x + kx];
        dx[x + kx] += (double)d->dy[o] * d->row_major[w + kx];
    }
}

/* Computes the sums of the definition, [batch][out][y][x], [out][in][y][x] and
 * [batch][in][y][x]. */
static void define(const struct data *d, double *y, double *dw, double *dx)
{
    const struct hd_conv_fields *f = &d->f;
    int64_t o = 0;
    for (int64_t n = 0; n < d->batch; n++)
        for (int64_t c = 0; c < f->out_channels; c++)
            for (int64_t r = 0; r < d->out_height; r++)
                for (int64_t s = 0; s < d->out_width; s++, o++) {
                    y[o] = d->bias[c];
                    for (int64_t i = 0; i < f->in_channels; i++)
                        for (int64_t ky = 0; ky < f->kernel; ky++)
                            define_row(d, n, c, r, s, i, ky, o, y, dw, dx);
                }
}

/* Compares found values, reordered, with those of the definition, which a ReLU sets to zero where
 * `mask` (NULL: no ReLU) is not positive. */
static void compare(const struct data *d, const void *found, enum hd_layout layout,
                    int64_t channels, int64_t height, int64_t width, int64_t row,
                    const double *wanted, const double *mask, double scale, const char *what)
{
    const double allowed = d->f.bf16 ? 4e-3 : 3e-7; /* rounded to 8 bits, or sums of floats */
    int64_t i = 0;
    for (int64_t n = 0; n < d->batch; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t y = 0; y < height; y++)
                for (int64_t x = 0; x < width; x++, i++) {
                    const double value =
                        get(d, found, n * row + place(layout, channels, height, width, c, y, x));
                    const double right = !mask || mask[i] > 0 ? wanted[i] : 0;
                    const double size = d->f.bf16 ? fabs(right) + 1e-3 * scale : scale;
                    if (!(fabs(value - right) <= allowed * size))
                        CHECK_CLOSE(value, right, size, allowed, what);
                }
}

static void check_bias(const struct data *d, double terms)
{
    const int64_t pixels = d->out_height * d->out_width, channels = d->f.out_channels;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < d->batch * pixels; i++)
            sum += d->dy[(i / pixels * channels + c) * pixels + i % pixels];
        CHECK_CLOSE(d->dbias[c], sum, terms, 3e-7, "dbias");
    }
}

/* Compares all passes with the definition. */
static void check(struct data *d, int64_t part)
{
    const struct hd_conv_fields *f = &d->f;
    const int64_t weights = f->out_channels * f->in_channels * f->kernel * f->kernel;
    const int64_t outputs = d->batch * f->out_channels * d->out_height * d->out_width;
    const int64_t inputs = d->batch * f->in_channels * f->in_height * f->in_width;
    double *y = test_alloc(outputs, 8), *dw = test_alloc(weights, 8), *dx = test_alloc(inputs, 8);
    double *x = test_alloc(inputs, 8);
    float *row_major = test_alloc(weights, 4);
    run(d, part);
    define(d, y, dw, dx);
    for (int64_t i = 0; i < inputs; i++)
        x[i] = d->x[i];
    compare(d, d->y, d->output, f->out_channels, d->out_height, d->out_width,
            hd_conv_count_output_elements(d->conv), y, f->relu ? y : NULL,
            (double)(weights / f->out_channels), "y");
    compare(d, d->dx, f->input, f->in_channels, f->in_height, f->in_width,
            hd_conv_count_input_elements(d->conv), dx, f->relu ? x : NULL,
            (double)(weights / f->in_channels), "dx");
    ck_assert_int_eq(hd_conv_export(d->conv, d->dw, row_major), HD_OK);
    const double terms = (double)(d->batch * d->out_height * d->out_width);
    for (int64_t i = 0; i < weights; i++)
        CHECK_CLOSE(row_major[i], dw[i], terms, 3e-7, "dw");
    check_bias(d, terms);
}

/* Large batches are for our own passes, which have one layout in each precision. */
TEST(passes_are_what_the_definition_says, .runs = count_precisions() * N_LAYOUTS * N_SIZES)
{
    const int size = _i % N_SIZES;
    const enum hd_layout layout = (enum hd_layout)(_i / N_SIZES % N_LAYOUTS);
    const bool bf16 = _i >= N_LAYOUTS * N_SIZES;
    const bool ours = layout == (bf16 ? HD_NHWC : HD_NCHW16);
    const bool small = sizes[size].height * sizes[size].width <= SMALL;
    for (int b = 0; b < (small && ours ? N_BATCHES : N_SMALL_BATCHES); b++) {
        struct data d = make(size, batches[b].all, batches[b].relu, layout, bf16);
        check(&d, batches[b].part);
        hd_conv_destroy(d.conv);
        free_test_blocks();
    }
}

/* Mixes the hash of memory into `hash` if our kernels for AMX compute the pass. */
static uint64_t mix_if_by_amx(const struct data *d, enum hd_conv_pass pass, uint64_t hash,
                              const void *memory, int64_t bytes)
{
    if (strcmp(hd_conv_get_name(d->conv, pass, d->batch), "heddle amx_bf16") != 0)
        return hash;
    return hd_hash_mix(hash, hd_hash_bytes(memory, (size_t)bytes));
}

/* Whoever changes the code sees whether its bits change. They do not depend on the processor. */
TEST(bits_are_as_they_were, .runs = N_SIZES)
{
    static const uint64_t bits[N_SIZES] = {
        0xC896C12138C288AD, 0xBD3F7E1D539A3DA8,        0x9FB38BFD5C6B3284,
        0x6BCC4F97EB090991, 0x37C15A0C06C3FE50,        0xADB070F2C5555864,
        0xA5CEAFEDB8262A62, [20] = 0x11820A6C3ECBBADD, 0x1478ED638EB7FBCC};
    if (!hd_amx_is_ready() || !bf16_here())
        return;
    struct data d = make(_i, 41, true, HD_NHWC, true);
    const int64_t in = hd_conv_count_input_elements(d.conv);
    const int64_t out = hd_conv_count_output_elements(d.conv);
    run(&d, 7);
    uint64_t hash = mix_if_by_amx(&d, HD_CONV_FORWARD, 0, d.y, activation_bytes(&d, out));
    hash = mix_if_by_amx(&d, HD_CONV_DATA, hash, d.dx, activation_bytes(&d, in));
    hash = mix_if_by_amx(&d, HD_CONV_WEIGHTS, hash, d.dw, hd_conv_count_weights(d.conv) * 4);
    hash = mix_if_by_amx(&d, HD_CONV_WEIGHTS, hash, d.dbias, d.f.out_channels * 4);
    ck_assert_msg(hash == bits[_i], "size %d: 0x%016" PRIX64, _i, hash);
    hd_conv_destroy(d.conv);
}
