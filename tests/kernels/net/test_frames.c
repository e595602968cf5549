/* SPDX-License-Identifier: Apache-2.0 */
/* Frames converted for the first convolution, element by element from the definition: the index of
 * each and, to the bit, its value. */
#include "kernels/net/frames.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"

#include <string.h>

static const struct hd_frames shapes[] = {
    {4, 84, 84, 4, HD_NHWC, false},   {4, 84, 84, 4, HD_NHWC, true},
    {4, 84, 84, 4, HD_NCHW16, false}, {3, 12, 44, 4, HD_NHWC, true},
    {3, 12, 44, 4, HD_NCHW16, true}, /* 11 patches in a line */
    {2, 8, 16, 4, HD_NHWC, false},   /* 4 */
    {5, 8, 12, 4, HD_NHWC, true},    /* 3 */
    {1, 4, 20, 4, HD_NCHW, false},    {3, 9, 10, 1, HD_NCHW, true},
    {3, 9, 10, 1, HD_NCHW, false},    {3, 9, 10, 1, HD_NHWC, false},
    {3, 9, 10, 1, HD_NCHW16, false}, /* 13 channels are missing */
    {2, 10, 6, 2, HD_NHWC, true},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MAX_ROWS = 9 };

static int64_t stored_channels(const struct hd_frames *f)
{
    int64_t channels = f->channels * f->block * f->block;
    return f->layout == HD_NCHW16 ? (channels + 15) / 16 * 16 : channels;
}

/* Returns the index of element (c, y, x) of an observation. */
static int64_t place(const struct hd_frames *f, int64_t c, int64_t y, int64_t x)
{
    const int64_t n = f->block, height = f->height / n, width = f->width / n;
    const int64_t channel = (c * n + y % n) * n + x % n, pixel = y / n * width + x / n;
    switch (f->layout) {
    case HD_NHWC:
        return pixel * stored_channels(f) + channel;
    case HD_NCHW16:
        return (channel / 16 * height * width + pixel) * 16 + channel % 16;
    default:
        return channel * height * width + pixel;
    }
}

struct conversion {
    const struct hd_frames *frames;
    const struct hd_obs_norm *norm;
    int64_t rows;
    uint8_t *bytes;
    float *floats; /* the same numbers; over 255 without norm */
};

static float wanted(const struct conversion *c, int64_t row, int64_t j)
{
    const int64_t size = c->frames->channels * c->frames->height * c->frames->width;
    const float x = c->bytes[row * size + j];
    if (!c->norm)
        return x / 255.0f;
    float y = fmaf(x, c->norm->scale[j], c->norm->shift[j]);
    return isnan(y) ? y : fminf(fmaxf(y, -c->norm->limit), c->norm->limit);
}

static void check_one(const struct conversion *c, const void *to, int64_t at, float value)
{
    const bool bf16 = c->frames->bf16;
    const float found =
        bf16 ? hd_bf16_to_float(((const hd_bf16 *)to)[at]) : ((const float *)to)[at];
    const float rounded = bf16 ? hd_bf16_to_float(hd_bf16_from_float(value)) : value;
    if (found != rounded && !(isnan(found) && isnan(rounded))) /* asserting costs more than this */
        ck_abort_msg("%d: %.9g, wanted %.9g", (int)at, found, rounded);
}

static void check_all(const struct conversion *c, const void *to)
{
    const struct hd_frames *f = c->frames;
    const int64_t row_size = stored_channels(f) * (f->height / f->block) * (f->width / f->block);
    const int64_t size = f->channels * f->height * f->width;
    int64_t zeros = 0;
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t j = 0; j < size; j++) {
            const int64_t channel = j / (f->height * f->width), y = j / f->width % f->height;
            check_one(c, to, r * row_size + place(f, channel, y, j % f->width), wanted(c, r, j));
        }
    /* Elements that belong to no pixel are zero. */
    const int64_t n = c->rows * row_size;
    for (int64_t i = 0; i < n; i++)
        zeros += f->bf16 ? ((const hd_bf16 *)to)[i] == 0 : ((const float *)to)[i] == 0;
    for (int64_t i = 0; i < c->rows * size; i++)
        zeros -= wanted(c, i / size, i % size) == 0;
    ck_assert_int_ge(zeros, n - c->rows * size);
}

static void convert_and_check(const struct conversion *c)
{
    const struct hd_frames *f = c->frames;
    const int64_t n = c->rows * stored_channels(f) * (f->height / f->block) * (f->width / f->block);
    const int64_t bytes = n * (f->bf16 ? 2 : 4);
    char *to = guarded(bytes);
    memset(to, 0xEE, (size_t)bytes);
    hd_frames_convert_bytes(f, c->norm, c->rows, c->bytes, to);
    check_all(c, to);
    check_guard(to, bytes);
    memset(to, 0xEE, (size_t)bytes);
    hd_frames_convert_floats(f, c->norm, c->rows, c->floats, to);
    check_all(c, to);
    check_guard(to, bytes);
}

static struct conversion make_conversion(const struct hd_frames *frames, int64_t rows,
                                         const struct hd_obs_norm *norm)
{
    const int64_t n = rows * frames->channels * frames->height * frames->width;
    struct conversion c = {.frames = frames, .norm = norm, .rows = rows};
    c.bytes = guarded(n);
    c.floats = test_alloc(n, sizeof *c.floats);
    for (int64_t i = 0; i < n; i++) {
        c.bytes[i] = (uint8_t)(256 * fill(3, (uint64_t)i));
        c.floats[i] = norm ? c.bytes[i] : (float)c.bytes[i] / 255.0f;
    }
    return c;
}

TEST(frames_are_divided_by_255, .runs = N_SHAPES)
{
    for (int64_t rows = 1; rows <= MAX_ROWS; rows += 4) {
        struct conversion c = make_conversion(&shapes[_i], rows, NULL);
        convert_and_check(&c);
    }
}

TEST(frames_are_normalised, .runs = N_SHAPES)
{
    const struct hd_frames *f = &shapes[_i];
    const int64_t size = f->channels * f->height * f->width;
    float *scale = test_alloc(size, sizeof *scale), *shift = test_alloc(size, sizeof *shift);
    const struct hd_obs_norm norm = {scale, shift, 1.25f};
    for (int64_t j = 0; j < size; j++) { /* some are cut off on either side */
        scale[j] = (float)(4 * fill(1, (uint64_t)j) - 2) / 255;
        shift[j] = (float)(3 * fill(2, (uint64_t)j) - 1.5);
    }
    shift[size / 2] = NAN; /* is seen, not cut off */
    for (int64_t rows = 1; rows <= MAX_ROWS; rows++) {
        struct conversion c = make_conversion(f, rows, &norm);
        convert_and_check(&c);
    }
}
