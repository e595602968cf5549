/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "kernels/envs/atari/warp.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#ifdef __AVX512VBMI__
#include <immintrin.h>
#endif

enum { GROUP = 16, GROUPS = HD_WARP_LANES / GROUP, WINDOW = 64, ROW = HD_WARP_MAX + WINDOW };

/* Returns the first source index of destination index d at scale s over `size` sources, and in
 * weight[0 … *n_p - 1] the weights of it and its successors (cv::computeResizeAreaTab). */
static int taps_of(int d, double s, int size, float weight[HD_WARP_TAPS], int *n_p)
{
    double from = d * s, to = from + s, cell = fmin(s, size - from);
    int first = (int)ceil(from), last = (int)fmin(floor(to), size - 1), n = 0;
    if (first > last)
        first = last;
    int start = first;
    if (first - from > 1e-3) {
        start = first - 1;
        weight[n++] = (float)((first - from) / cell);
    }
    for (int i = first; i < last; i++)
        weight[n++] = (float)(1.0 / cell);
    if (to - last > 1e-3)
        weight[n++] = (float)(fmin(fmin(to - last, 1.0), cell) / cell);
    *n_p = n;
    return start;
}

void hd_warp_init(struct hd_warp *warp, int height, int width)
{
    memset(warp, 0, sizeof *warp);
    warp->height = height;
    warp->width = width;
    for (int d = 0; d < HD_WARP_SIZE; d++) {
        int n;
        warp->row[d] =
            (int16_t)taps_of(d, (double)height / HD_WARP_SIZE, height, warp->row_weight[d], &n);
        if (warp->row_taps < n)
            warp->row_taps = n;
        float weight[HD_WARP_TAPS];
        int first = taps_of(d, (double)width / HD_WARP_SIZE, width, weight, &n);
        if (warp->column_taps < n)
            warp->column_taps = n;
        int begin = d % GROUP == 0 ? first : warp->window[d / GROUP];
        warp->window[d / GROUP] = (int16_t)begin;
        for (int k = 0; k < HD_WARP_TAPS; k++) {
            int column = first + (k < n ? k : 0);
            warp->column[k][d] = (int16_t)column;
            warp->within[k][d] = (uint8_t)(column - begin);
            warp->column_weight[k][d] = k < n ? weight[k] : 0;
        }
    }
}

void hd_warp_palette_init(struct hd_warp_palette *palette, const uint32_t rgb[256])
{
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            uint32_t top[3];
            for (int c = 0; c < 3; c++) {
                uint32_t x = rgb[a] >> 8 * c & 255, y = rgb[b] >> 8 * c & 255;
                top[c] = x > y ? x : y;
            }
            palette->pair[a][b] = hd_warp_get_luma(top[2], top[1], top[0]);
            if (a == b)
                palette->same[a] = palette->pair[a][b];
        }
}

/* Shrinks one row of gray pixels, readable up to ROW, to sums over the columns' taps. */
static void shrink_row(const struct hd_warp *warp, const uint8_t gray[ROW],
                       float sum[HD_WARP_LANES])
{
#ifdef __AVX512VBMI__
    for (int g = 0; g < GROUPS; g++) {
        __m512i window = _mm512_loadu_si512(gray + warp->window[g]);
        __m512 total = _mm512_setzero_ps();
        for (int k = 0; k < warp->column_taps; k++) {
            __m128i within = _mm_loadu_si128((const __m128i *)&warp->within[k][g * GROUP]);
            __m512i bytes = _mm512_permutexvar_epi8(_mm512_castsi128_si512(within), window);
            __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes)));
            __m512 weight = _mm512_loadu_ps(&warp->column_weight[k][g * GROUP]);
            total = _mm512_add_ps(total, _mm512_mul_ps(value, weight));
        }
        _mm512_storeu_ps(sum + g * GROUP, total);
    }
#else
    memset(sum, 0, HD_WARP_LANES * sizeof *sum);
    for (int k = 0; k < warp->column_taps; k++)
        for (int d = 0; d < HD_WARP_LANES; d++)
            sum[d] += (float)gray[warp->column[k][d]] * warp->column_weight[k][d];
#endif
}

/* A screen whose rows can be read in gray. */
struct screen {
    void (*gray_row)(const struct screen *screen, int64_t y, uint8_t *gray);
    const uint8_t *a, *b; /* b is NULL if there is only one frame */
    int width, row_bytes;
    const struct hd_warp_palette *palette;
};

static void copy_row(const struct screen *screen, int64_t y, uint8_t *gray)
{
    memcpy(gray, screen->a + y * screen->row_bytes, (size_t)screen->width);
}

static void rgb_row(const struct screen *screen, int64_t y, uint8_t *gray)
{
    const uint8_t *rgb = screen->a + y * screen->row_bytes;
    for (int x = 0; x < screen->width; x++)
        gray[x] = hd_warp_get_luma(rgb[3 * x], rgb[3 * x + 1], rgb[3 * x + 2]);
}

static void pair_row(const struct screen *screen, int64_t y, uint8_t *gray)
{
    const uint8_t *a = screen->a + y * screen->row_bytes, *b = screen->b + y * screen->row_bytes;
    for (int x = 0; x < screen->width; x++)
        gray[x] = screen->palette->pair[a[x]][b[x]];
}

static void index_row(const struct screen *screen, int64_t y, uint8_t *gray)
{
    const uint8_t *a = screen->a + y * screen->row_bytes;
    for (int x = 0; x < screen->width; x++)
        gray[x] = screen->palette->same[a[x]];
}

/* Returns whether two rows are equal: game screens repeat rows, which then need no work. */
static bool same_rows(const struct screen *screen, int64_t y, int64_t z)
{
    size_t bytes = (size_t)screen->row_bytes;
    int64_t from = y * screen->row_bytes, to = z * screen->row_bytes;
    return memcmp(screen->a + from, screen->a + to, bytes) == 0 &&
           (!screen->b || memcmp(screen->b + from, screen->b + to, bytes) == 0);
}

/* Rounds to the nearest, ties to even. A float above 2^23 has no fraction, so adding 2^23 rounds;
 * means of bytes are far from 255.5, whatever the rounding errors. */
static void round_row(const float sum[HD_WARP_LANES], uint8_t out[HD_WARP_SIZE])
{
    for (int d = 0; d < HD_WARP_SIZE; d++)
        out[d] = (uint8_t)(int32_t)(sum[d] + 8388608.0f);
}

static void warp_screen(const struct hd_warp *warp, const struct screen *screen, uint8_t *out)
{
    uint8_t gray[ROW];
    float row[HD_WARP_LANES], sum[HD_WARP_LANES];
    int64_t held = -1;
    for (int r = 0; r < HD_WARP_SIZE; r++, out += HD_WARP_SIZE) {
        memset(sum, 0, sizeof sum);
        for (int k = 0; k < warp->row_taps && warp->row_weight[r][k] > 0; k++) {
            int64_t y = warp->row[r] + k;
            if (held < 0 || (y != held && !same_rows(screen, y, held))) {
                screen->gray_row(screen, y, gray);
                shrink_row(warp, gray, row);
            }
            held = y;
            for (int d = 0; d < HD_WARP_LANES; d++)
                sum[d] += row[d] * warp->row_weight[r][k];
        }
        round_row(sum, out);
    }
}

void hd_warp_resize_gray(const struct hd_warp *warp, const uint8_t *gray, uint8_t *out)
{
    struct screen screen = {
        .gray_row = copy_row, .a = gray, .width = warp->width, .row_bytes = warp->width};
    warp_screen(warp, &screen, out);
}

void hd_warp_resize_rgb(const struct hd_warp *warp, const uint8_t *rgb, uint8_t *out)
{
    struct screen screen = {
        .gray_row = rgb_row, .a = rgb, .width = warp->width, .row_bytes = 3 * warp->width};
    warp_screen(warp, &screen, out);
}

void hd_warp_resize_max(const struct hd_warp *warp, const struct hd_warp_palette *palette,
                        const uint8_t *a, const uint8_t *b, uint8_t *out)
{
    struct screen screen = {.gray_row = a == b ? index_row : pair_row,
                            .a = a,
                            .b = a == b ? NULL : b,
                            .width = warp->width,
                            .row_bytes = warp->width,
                            .palette = palette};
    warp_screen(warp, &screen, out);
}
