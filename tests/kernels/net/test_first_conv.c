/* SPDX-License-Identifier: Apache-2.0 */
/* The first convolution straight from bytes on a GPU, against sums in double. */
#include "kernels/common/bf16.h"
#include "kernels/net/gpu/first_conv.h"
#include "kernels/net/obs_norm.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#if HD_CUDA

static const int64_t batches[] = {1, 2, 7, 33};
enum { N_BATCHES = sizeof batches / sizeof *batches };

static const struct {
    int32_t channels, height, width, out;
} shapes[] = {
    {4, 84, 84, 16},                  /* several bands of a sample */
    {4, 84, 84, 32},  {1, 44, 36, 8}, /* few channels */
    {5, 42, 60, 40},  /* many channels; an odd number of rows; lines that no window sees */
    {2, 36, 84, 136}, /* the blocks of a gradient have several bands each */
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Arrays on the host, and what a reference makes of them in double. */
struct arrays {
    struct hd_gpu_first_conv conv;
    int64_t elements, depth, pixels; /* of an observation, of a window, of an output's channel */
    uint8_t *obs;
    float *scale, *shift, *entered; /* entered: the observations as they enter the net */
    hd_bf16 *weight, *bias, *delta;
};

static struct arrays make_arrays(int shape, int64_t rows)
{
    struct arrays a = {.conv = {.rows = rows, .out = shapes[shape].out}};
    struct hd_gpu_window *w = &a.conv.window;
    *w = (struct hd_gpu_window){.channels = shapes[shape].channels,
                                .height = shapes[shape].height,
                                .width = shapes[shape].width,
                                .kernel = 8,
                                .stride = 4};
    w->out_height = (w->height - 8) / 4 + 1;
    w->out_width = (w->width - 8) / 4 + 1;
    a.elements = (int64_t)w->channels * w->height * w->width;
    a.depth = w->channels * 64;
    a.pixels = (int64_t)w->out_height * w->out_width;
    a.obs = test_alloc(rows * a.elements, 1);
    a.scale = test_alloc(a.elements, sizeof(float));
    a.shift = test_alloc(a.elements, sizeof(float));
    a.entered = test_alloc(rows * a.elements, sizeof(float));
    a.weight = test_alloc(a.conv.out * a.depth, sizeof(hd_bf16));
    a.bias = test_alloc(a.conv.out, sizeof(hd_bf16));
    a.delta = test_alloc(rows * a.pixels * a.conv.out, sizeof(hd_bf16));
    return a;
}

/* Draws integers below n. */
static int32_t draw(int32_t stream, int64_t i, int32_t n)
{
    const struct hd_rng rng = hd_rng_make(5, (uint64_t)stream, 0, 0, 0);
    return (int32_t)hd_rng_draw_below(&rng, (uint32_t)i, (uint32_t)n);
}

static void fill_bf16(hd_bf16 *to, int64_t n, int32_t stream, float unit)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = hd_bf16_from_float((float)(draw(stream, i, 17) - 8) * unit);
}

/* Fills the arrays: bytes below `bytes`, weights and delta of at most eight units, and a norm that
 * leaves the bytes as they are if `whole`. */
static void fill_arrays(struct arrays *a, int32_t bytes, float unit, bool whole)
{
    for (int64_t i = 0; i < a->conv.rows * a->elements; i++)
        a->obs[i] = (uint8_t)draw(1, i, bytes);
    for (int64_t i = 0; i < a->elements; i++) {
        a->scale[i] = whole ? 1.0f : 0.01f * (float)draw(2, i, 9);
        a->shift[i] = whole ? 0.0f : 0.1f * (float)(draw(3, i, 9) - 5);
    }
    fill_bf16(a->weight, a->conv.out * a->depth, 4, unit);
    fill_bf16(a->bias, a->conv.out, 5, unit);
    fill_bf16(a->delta, a->conv.rows * a->pixels * a->conv.out, 6, unit);
}

/* Has the reference see the observations as hd_gpu_im2col_obs does. */
static void enter(const struct arrays *a, const struct hd_obs_norm *norm)
{
    for (int64_t i = 0; i < a->conv.rows * a->elements; i++) {
        const float x =
            norm ? hd_obs_normalise(norm, i % a->elements, a->obs[i]) : (float)a->obs[i] / 255.0f;
        a->entered[i] = hd_bf16_to_float(hd_bf16_from_float(x));
    }
}

/* Returns the index among the observations of element k of a pixel's window. */
static int64_t find_input(const struct arrays *a, int64_t row, int64_t pixel, int64_t k)
{
    const struct hd_gpu_window *w = &a->conv.window;
    const int64_t y = pixel / w->out_width * 4 + k % 64 / 8, x = pixel % w->out_width * 4 + k % 8;
    return row * a->elements + (k / 64 * w->height + y) * w->width + x;
}

struct sum {
    double sum, of_sizes; /* of the products, and of their absolute values */
};

static void add(struct sum *sum, float x, hd_bf16 y)
{
    const double product = (double)x * hd_bf16_to_float(y);
    sum->sum += product;
    sum->of_sizes += fabs(product);
}

static struct sum sum_output(const struct arrays *a, int64_t row, int64_t pixel, int64_t channel)
{
    struct sum sum = {hd_bf16_to_float(a->bias[channel]), 0};
    for (int64_t k = 0; k < a->depth; k++)
        add(&sum, a->entered[find_input(a, row, pixel, k)], a->weight[channel * a->depth + k]);
    return sum;
}

/* Adds the gradient of the first `rows` samples. */
static struct sum sum_gradient(const struct arrays *a, int64_t rows, int64_t channel, int64_t k)
{
    struct sum sum = {0};
    for (int64_t row = 0; row < rows; row++)
        for (int64_t pixel = 0; pixel < a->pixels; pixel++)
            add(&sum, a->entered[find_input(a, row, pixel, k)],
                a->delta[(row * a->pixels + pixel) * a->conv.out + channel]);
    return sum;
}

/* -- On the device ----------------------------------------------------------------------------- */

struct results {
    hd_bf16 *y;
    float *gradient;
};

/* Computes y of all rows, of which the last ones come from a second array that is not aligned, and
 * the gradient of the first `back` rows. */
static struct results compute(const struct arrays *a, const struct hd_obs_norm *norm, int64_t back)
{
    const int64_t rows = a->conv.rows, n_first = (rows + 1) / 2,
                  n_y = rows * a->pixels * a->conv.out;
    const int64_t weights = a->conv.out * a->depth, bytes = (rows - n_first) * a->elements;
    struct hd_gpu_first_conv conv = a->conv;
    struct results found = {test_alloc(n_y, 2), test_alloc(weights, 4)};
    uint8_t *second = test_alloc(bytes + 1, 1);
    memcpy(second + 1, a->obs + n_first * a->elements, (size_t)bytes);
    struct hd_gpu_obs obs = {.first = device_make(a->obs, n_first * a->elements),
                             .second = (uint8_t *)device_make(second, bytes + 1) + (bytes > 0),
                             .n_first = n_first,
                             .elements = a->elements};
    if (norm) {
        obs.scale = device_make(norm->scale, a->elements * 4);
        obs.shift = device_make(norm->shift, a->elements * 4);
        obs.limit = norm->limit;
    }
    const struct hd_gpu_kept_obs kept = {
        device_make(NULL, rows * a->elements),
        device_make(NULL, hd_gpu_first_conv_count_norm(&conv.window) * 4)};
    void *y = device_make(NULL, n_y * 2);
    ck_assert_int_eq(hd_gpu_first_conv_forward(&conv, &obs, device_make(a->weight, weights * 2),
                                               device_make(a->bias, conv.out * 2), y, &kept,
                                               device_stream()),
                     HD_OK);
    device_get(found.y, y, n_y * 2);
    conv.rows = back;
    void *partials = device_make(NULL, hd_gpu_first_conv_count_partials(&conv) * 4);
    float *gradient = device_make(NULL, weights * 4);
    ck_assert_int_eq(hd_gpu_first_conv_gradient(&conv, &kept, device_make(a->delta, n_y * 2),
                                                partials, gradient, device_stream()),
                     HD_OK);
    device_get(found.gradient, gradient, weights * 4);
    return found;
}

/* -- Tests ------------------------------------------------------------------------------------- */

/* All products and sums of small integers are exact in f32, whatever their order. */
TEST(sums_of_integers_are_exact, .runs = N_SHAPES * N_BATCHES, .cuda = true)
{
    const int64_t rows = batches[_i % N_BATCHES], back = rows == 7 ? 6 : rows;
    struct arrays a = make_arrays(_i / N_BATCHES, rows);
    fill_arrays(&a, 64, 1.0f, true);
    const struct hd_obs_norm norm = {a.scale, a.shift, 1000};
    enter(&a, &norm);
    const struct results found = compute(&a, &norm, back);
    for (int64_t i = 0; i < rows * a.pixels * a.conv.out; i++) {
        const int64_t pixel = i / a.conv.out;
        const float sum =
            (float)sum_output(&a, pixel / a.pixels, pixel % a.pixels, i % a.conv.out).sum;
        ck_assert_uint_eq(found.y[i], hd_bf16_from_float(sum > 0 ? sum : 0));
    }
    for (int64_t i = 0; i < a.conv.out * a.depth; i++)
        ck_assert(found.gradient[i] == (float)sum_gradient(&a, back, i / a.depth, i % a.depth).sum);
}

/* A tensor core adds f32 in an order of its own and may cut off a bit of each sum, which is 2^-23
 * of it at most. There are hundreds of additions in a chain, whose errors mostly cancel: 2^-19 of
 * the sum of sizes. Outputs are then rounded to 8 bits. */
TEST(sums_are_near_those_in_double, .runs = 2 * N_SHAPES, .cuda = true)
{
    const bool normalised = _i % 2;
    struct arrays a = make_arrays(_i / 2, 3);
    fill_arrays(&a, 256, 0.1f, false);
    const struct hd_obs_norm norm = {a.scale, a.shift, 2};
    enter(&a, normalised ? &norm : NULL);
    const struct results found = compute(&a, normalised ? &norm : NULL, 3);
    for (int64_t i = 0; i < 3 * a.pixels * a.conv.out; i++) {
        const int64_t pixel = i / a.conv.out;
        const struct sum sum = sum_output(&a, pixel / a.pixels, pixel % a.pixels, i % a.conv.out);
        CHECK_CLOSE(hd_bf16_to_float(found.y[i]), fmax(sum.sum, 0),
                    0x1p-8 * fabs(sum.sum) + 0x1p-19 * sum.of_sizes, 1, "output");
    }
    for (int64_t i = 0; i < a.conv.out * a.depth; i++) {
        const struct sum sum = sum_gradient(&a, 3, i / a.depth, i % a.depth);
        CHECK_CLOSE(found.gradient[i], sum.sum, sum.of_sizes, 0x1p-19, "gradient");
    }
}

/* Every byte enters as its quotient by 255, rounded once more: a single weight of 1 shows it. */
TEST(bytes_enter_as_elsewhere, .cuda = true)
{
    struct arrays a = make_arrays(2, 33);
    memset(a.weight, 0, (size_t)(a.conv.out * a.depth) * sizeof *a.weight);
    memset(a.bias, 0, (size_t)a.conv.out * sizeof *a.bias);
    memset(a.delta, 0, (size_t)(33 * a.pixels * a.conv.out) * sizeof *a.delta);
    for (int64_t i = 0; i < 33 * a.elements; i++)
        a.obs[i] = (uint8_t)(i % 251 + i / a.elements % 2 * 5);
    a.weight[0] = hd_bf16_from_float(1);
    const struct results found = compute(&a, NULL, 33);
    bool met[256] = {false};
    for (int64_t pixel = 0; pixel < 33 * a.pixels; pixel++) {
        const uint8_t byte = a.obs[find_input(&a, pixel / a.pixels, pixel % a.pixels, 0)];
        ck_assert_uint_eq(found.y[pixel * a.conv.out], hd_bf16_from_float((float)byte / 255.0f));
        met[byte] = true;
    }
    for (int byte = 0; byte < 256; byte++)
        ck_assert_msg(met[byte], "byte %d", byte);
}

TEST(a_nan_stays_a_nan, .cuda = true)
{
    struct arrays a = make_arrays(2, 1);
    fill_arrays(&a, 256, 0.1f, true);
    a.weight[3 * a.depth + 5] = hd_bf16_from_float(NAN);
    const struct results found = compute(&a, NULL, 1);
    for (int64_t i = 0; i < a.pixels * a.conv.out; i++)
        ck_assert_int_eq(isnan(hd_bf16_to_float(found.y[i])), i % a.conv.out == 3);
}

/* The other shapes have columns. */
TEST(shapes_that_are_not_supported, .cuda = true)
{
    const struct hd_gpu_window nature = make_arrays(0, 1).conv.window;
    struct hd_gpu_window narrow = nature, small = nature, wide = nature, deep = nature;
    narrow.width = 86;
    small.kernel = 4;
    wide.width = 400, wide.out_width = 99;
    deep.channels = 60;
    ck_assert(hd_gpu_first_conv_supports(&nature));
    ck_assert(!hd_gpu_first_conv_supports(&narrow));
    ck_assert(!hd_gpu_first_conv_supports(&small));
    ck_assert(!hd_gpu_first_conv_supports(&wide));
    ck_assert(!hd_gpu_first_conv_supports(&deep));
}

#endif
