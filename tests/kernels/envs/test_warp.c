/* SPDX-License-Identifier: Apache-2.0 */
/* The screen resize: the numbers of docs/di-engine.md 9.5, a reference that computes overlaps of
 * pixels with cells, and the shortcuts (repeated rows, two frames of palette indices) against the
 * general computation. */
#include "kernels/envs/atari/warp.h"
#include "tests/kernels/common/check_close.h"

#include <string.h>

enum { SIZE = HD_WARP_SIZE };

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static uint8_t *random_bytes(int64_t n, uint64_t seed)
{
    uint8_t *bytes = test_alloc(n, 1);
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)next(&seed);
    return bytes;
}

/* Returns how much of source pixel i lies under destination cell d; slivers of 1e-3 are dropped. */
static double overlap(int d, int i, double s)
{
    double low = fmax(d * s, i), high = fmin((d + 1) * s, i + 1);
    return high - low > 1e-3 ? high - low : 0;
}

/* Returns the mean over a destination cell, in double. */
static double reference(const uint8_t *gray, int height, int width, int r, int c)
{
    double sy = (double)height / SIZE, sx = (double)width / SIZE, sum = 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            if (overlap(r, y, sy) > 0)
                sum += overlap(r, y, sy) * overlap(c, x, sx) * gray[y * width + x];
    return sum / (sy * sx);
}

TEST(test_golden)
{
    static const struct {
        int row, column;
        uint8_t value[6];
    } expected[] = {{0, 0, {5, 11, 16, 21, 26, 32}},
                    {41, 40, {135, 135, 143, 149, 151, 158}},
                    {83, 78, {169, 174, 181, 187, 190, 199}}};
    uint8_t *rgb = test_alloc(210 * 160, 3), out[SIZE * SIZE];
    for (int y = 0; y < 210; y++)
        for (int x = 0; x < 160; x++) {
            uint8_t *pixel = rgb + (y * 160 + x) * 3;
            pixel[0] = (uint8_t)(3 * y + 5 * x);
            pixel[1] = (uint8_t)(7 * y + 2 * x);
            pixel[2] = (uint8_t)(x * y);
        }
    struct hd_warp warp;
    hd_warp_init(&warp, 210, 160);
    hd_warp_resize_rgb(&warp, rgb, out);
    int64_t sum = 0;
    for (int i = 0; i < SIZE * SIZE; i++)
        sum += out[i];
    ck_assert_int_eq(sum, 895603);
    for (int i = 0; i < 3; i++)
        ck_assert_mem_eq(out + expected[i].row * SIZE + expected[i].column, expected[i].value, 6);
}

/* If the exact mean is clear of a tie, the byte is its rounding; at a tie float32 may give either
 * neighbour, and golden and interop tests decide. */
TEST(test_sizes)
{
    static const int sizes[][2] = {{210, 160}, {250, 160}, {84, 84},   {85, 91},
                                   {320, 320}, {84, 320},  {317, 127}, {168, 252}};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        int height = sizes[n][0], width = sizes[n][1];
        uint8_t *gray = random_bytes((int64_t)height * width, n), out[SIZE * SIZE + 64];
        memset(out, 0xA5, sizeof out);
        struct hd_warp warp;
        hd_warp_init(&warp, height, width);
        hd_warp_resize_gray(&warp, gray, out);
        for (int r = 0; r < SIZE; r += 1 + (int)(n % 2))
            for (int c = 0; c < SIZE; c++) {
                double wanted = reference(gray, height, width, r, c);
                ck_assert_msg(fabs(out[r * SIZE + c] - wanted) <= 0.5 + 1e-4,
                              "%d x %d: row %d column %d is %d, its mean %.6f", height, width, r, c,
                              out[r * SIZE + c], wanted);
            }
        for (int i = 0; i < 64; i++)
            ck_assert_int_eq(out[SIZE * SIZE + i], 0xA5);
    }
}

TEST(test_constant)
{
    uint8_t *gray = test_alloc(210 * 160, 1), out[SIZE * SIZE];
    struct hd_warp warp;
    hd_warp_init(&warp, 210, 160);
    for (int value = 0; value < 256; value++) {
        memset(gray, value, 210 * 160);
        hd_warp_resize_gray(&warp, gray, out);
        for (int i = 0; i < SIZE * SIZE; i++)
            ck_assert_int_eq(out[i], value);
    }
}

/* Two frames of palette indices show what their maximum in RGB shows; rows and frames that repeat
 * are no special case. */
TEST(test_palette)
{
    enum { H = 210, W = 160 };
    uint32_t rgb[256];
    uint64_t state = 7;
    for (int i = 0; i < 256; i++)
        rgb[i] = next(&state) & 0xFFFFFF;
    static struct hd_warp_palette palette;
    hd_warp_palette_init(&palette, rgb);
    struct hd_warp warp;
    hd_warp_init(&warp, H, W);
    uint8_t *a = random_bytes(H * W, 1), *b = random_bytes(H * W, 2), *top = test_alloc(H * W, 3);
    for (int y = 20; y < 60; y += 3) { /* rows that repeat in one frame, the other, or both */
        memcpy(a + (y + 1) * W, a + y * W, W);
        if (y % 2)
            memcpy(b + (y + 1) * W, b + y * W, W);
    }
    for (int y = 60; y < 90; y++)
        memcpy(b + y * W, b + 60 * W, W);
    for (int same = 0; same < 2; same++) {
        const uint8_t *second = same ? a : b;
        for (int i = 0; i < H * W; i++)
            for (int c = 0; c < 3; c++) {
                uint8_t x = (uint8_t)(rgb[a[i]] >> (16 - 8 * c)),
                        y = (uint8_t)(rgb[second[i]] >> (16 - 8 * c));
                top[3 * i + c] = x > y ? x : y;
            }
        uint8_t wanted[SIZE * SIZE], found[SIZE * SIZE];
        hd_warp_resize_rgb(&warp, top, wanted);
        hd_warp_resize_max(&warp, &palette, a, second, found);
        ck_assert_mem_eq(found, wanted, sizeof wanted);
    }
}

/* Repeated rows take a shortcut: the same picture without it, by a row that differs in a pixel that
 * the result shows only there. */
TEST(test_last_pixel_of_a_row)
{
    enum { H = 210, W = 160 };
    uint8_t *gray = test_alloc(H * W, 1), out[SIZE * SIZE];
    memset(gray, 10, H * W);
    for (int y = 100; y < 105; y++)
        gray[y * W + W - 1] = 250;
    struct hd_warp warp;
    hd_warp_init(&warp, H, W);
    hd_warp_resize_gray(&warp, gray, out);
    for (int r = 0; r < SIZE; r++)
        for (int c = 0; c < SIZE; c++)
            ck_assert_int_eq(out[r * SIZE + c] != 10, c == SIZE - 1 && (r == 40 || r == 41));
}
