/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of an input pixel is a sum over the weights that touch it, each times the gradient
 * of the output that it contributes to. In images whose rows are as wide as the input's ("wide
 * rows"), that output lies a constant number of pixels before the input pixel. */
#include "kernels/conv/conv_amx_tiles_internal.h"

#ifdef HD_AMX

#include <string.h>

enum { TILE = HD_TILE_ROWS, PAIRED = 2 * TILE /* channels of the output at a time */ };
enum { BLOCK = TILE * TILE, TILE_ELEMENTS = TILE * PAIRED, ROWS = 2 * TILE /* pixels at a time */ };

enum { CACHE_BYTES = 256 << 10 /* for the wide rows of some images */ };

/* The sizes of a pass. The images that are processed together form one sequence of wide rows. */
struct tiling {
    struct hd_conv_fields f;
    struct hd_conv_geometry g;
    int64_t farthest; /* largest distance from an input pixel back to an output that it contributes
                         to */
    int64_t images;   /* processed together */
    int64_t pixels;   /* of these images */
    int64_t steps;    /* of one sum */
    int64_t weights;  /* elements of all weights, as tiles */
};

static struct tiling tiling_of(const struct hd_conv_fields *f)
{
    struct tiling j = {.f = *f, .g = hd_conv_geometry_make(f)};
    j.farthest = (j.g.side - 1) * (j.g.width + 1);
    j.steps = j.g.side * j.g.side * ((j.g.out_blocks + 1) / 2);
    j.weights = f->stride * f->stride * j.g.in_blocks * j.steps * TILE_ELEMENTS;
    const int64_t image_bytes = j.g.height * j.g.width * f->out_channels * (int64_t)sizeof(hd_bf16);
    j.images = image_bytes < CACHE_BYTES ? CACHE_BYTES / image_bytes : 1;
    return j;
}

static struct tiling tiling_of_batch(const struct hd_conv_fields *f, int64_t batch)
{
    struct tiling j = tiling_of(f);
    j.images = batch < j.images ? batch : j.images;
    j.pixels = j.images * j.g.height * j.g.width;
    return j;
}

/* -- Weights: [y, x within the stride][block of inputs][step][16 pairs of outputs][16 inputs][2]; a
    step is a place in the kernel and 32 outputs  */

/* Rearranges one block of 16 inputs by 16 outputs into half of a tile. */
static void pair_block(const float *block, hd_bf16 *half)
{
    hd_vec row[HD_VEC];
    for (int i = 0; i < TILE; i++)
        row[i] = hd_vec_load(block + i * TILE);
    hd_vec_transpose(row);
    for (int o = 0; o < TILE; o += 2)
        hd_bf16_pair((const float *)&row[o], (const float *)&row[o + 1], half + o * TILE);
}

static void pair_weights(const struct tiling *j, const float *weights, hd_bf16 *tiles)
{
    const int64_t stride = j->f.stride, side = j->g.side, area = j->f.kernel * j->f.kernel;
    for (int64_t first = 0; first < stride * stride; first++)
        for (int64_t in = 0; in < j->g.in_blocks; in++)
            for (int64_t k = 0; k < side * side; k++)
                for (int64_t out = 0; out < j->g.out_blocks; out += 2, tiles += TILE_ELEMENTS) {
                    const int64_t ky = k / side * stride + first / stride;
                    const int64_t kx = k % side * stride + first % stride;
                    const int64_t next = j->g.in_blocks * area * BLOCK;
                    const float *block =
                        weights + out * next + (in * area + ky * j->f.kernel + kx) * BLOCK;
                    pair_block(block, tiles);
                    if (j->g.out_blocks - out > 1)
                        pair_block(block + next, tiles + TILE_ELEMENTS / 2);
                    else
                        memset(tiles + TILE_ELEMENTS / 2, 0, TILE_ELEMENTS);
                }
}

/* -- Gradient of the output: wide rows of all images, [pixel][channel], zeros before, between and
    after  */

static int64_t wide_elements(const struct tiling *j)
{
    const int64_t whole = (j->pixels + ROWS - 1) / ROWS * ROWS;
    return (j->farthest + whole) * j->f.out_channels + PAIRED;
}

static void widen_rows(const struct tiling *j, const hd_bf16 *dy, hd_bf16 *wide)
{
    const int64_t row = j->g.out_width * j->f.out_channels;
    memset(wide, 0, (size_t)wide_elements(j) * sizeof *wide);
    for (int64_t n = 0; n < j->images; n++)
        for (int64_t y = 0; y < j->g.out_height; y++, dy += row) {
            const int64_t pixel = j->farthest + (n * j->g.height + y) * j->g.width;
            memcpy(wide + pixel * j->f.out_channels, dy, (size_t)row * sizeof *dy);
        }
}

/* -- Products: tiles 0 … 3 are 32 pixels by two blocks of inputs, 4 and 5 the output's gradient, 6
 and 7 weights  */

/* The position of the next pixel in the wide rows. */
struct cursor {
    int64_t image, y, x;
};

/* The positions in the input of 32 pixels of the wide rows, for y = x = 0 within the stride. */
struct places {
    int64_t y[ROWS], x[ROWS]; /* y < 0: beyond the last image */
    int64_t at[ROWS];         /* elements */
};

static void next_places(const struct tiling *j, struct cursor *c, struct places *places)
{
    const struct hd_conv_fields *f = &j->f;
    for (int i = 0; i < ROWS; i++) {
        places->y[i] = c->image < j->images ? c->y * f->stride : -1;
        places->x[i] = c->x * f->stride;
        places->at[i] =
            ((c->image * f->in_height + c->y * f->stride) * f->in_width + c->x * f->stride) *
            f->in_channels;
        if (++c->x < j->g.width)
            continue;
        c->x = 0;
        if (++c->y == j->g.height)
            c->y = 0, c->image++;
    }
}

HD_ALWAYS void multiply(const struct tiling *j, const hd_bf16 *wide, const hd_bf16 *weights,
                        bool two, float *tiles)
{
    const int64_t channels = j->f.out_channels, next = j->steps * TILE_ELEMENTS;
    const int64_t stride = channels * (int64_t)sizeof *wide;
    hd_tiles_begin();
    for (int64_t ky = 0; ky < j->g.side; ky++)
        for (int64_t kx = 0; kx < j->g.side; kx++) {
            const hd_bf16 *a = wide + (j->farthest - ky * j->g.width - kx) * channels;
            for (int64_t o = 0; o < channels; o += PAIRED, weights += TILE_ELEMENTS) {
                _tile_loadd(4, a + o, stride);
                _tile_loadd(6, weights, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_loadd(5, a + TILE * channels + o, stride);
                _tile_dpbf16ps(2, 5, 6);
                if (two) {
                    _tile_loadd(7, weights + next, 64);
                    _tile_dpbf16ps(1, 4, 7);
                    _tile_dpbf16ps(3, 5, 7);
                }
            }
        }
    _tile_stored(0, tiles, 128);
    _tile_stored(2, tiles + TILE * PAIRED, 128);
    if (two) {
        _tile_stored(1, tiles + TILE, 128);
        _tile_stored(3, tiles + TILE * PAIRED + TILE, 128);
    }
    hd_tiles_settle();
}

/* Stores rows of tiles[32 pixels][32 inputs], rounded, with zeros where y is not positive, if there
 * is y. */
static void store_pixels(const struct tiling *j, const struct places *places, int64_t first_y,
                         int64_t first_x, int64_t in, const hd_bf16 *y, const float *tiles,
                         hd_bf16 *dx)
{
    const int64_t move = (first_y * j->f.in_width + first_x) * j->f.in_channels + in * TILE;
    const __mmask32 there = j->g.in_blocks - in > 1 ? 0xFFFFFFFF : 0xFFFF;
    for (int i = 0; i < ROWS; i++) {
        const int64_t at = places->at[i] + move;
        if (places->y[i] < 0 || places->y[i] + first_y >= j->f.in_height ||
            places->x[i] + first_x >= j->f.in_width)
            continue;
        const __mmask32 passes =
            y ? _mm512_cmpgt_epi16_mask(_mm512_maskz_loadu_epi16(there, y + at),
                                        _mm512_setzero_si512())
              : there;
        const __m512i value = (__m512i)_mm512_cvtne2ps_pbh(
            _mm512_loadu_ps(tiles + i * PAIRED + TILE), _mm512_loadu_ps(tiles + i * PAIRED));
        _mm512_mask_storeu_epi16(dx + at, there, _mm512_maskz_mov_epi16(passes, value));
    }
}

static int64_t get_scratch_bytes(const struct hd_conv_fields *f, int64_t max_batch)
{
    const struct tiling j = tiling_of_batch(f, max_batch);
    return (j.weights + wide_elements(&j)) * (int64_t)sizeof(hd_bf16);
}

/* Puts the weights at the beginning of the scratch. */
static void begin(const struct hd_conv_fields *f, const struct hd_conv_run *run)
{
    const struct tiling j = tiling_of(f);
    pair_weights(&j, run->weights, run->scratch);
}

static void data_of_some(const struct tiling *j, const hd_bf16 *tiles, const hd_bf16 *dy,
                         const hd_bf16 *y, hd_bf16 *dx, hd_bf16 *wide)
{
    float product[ROWS * PAIRED] __attribute__((aligned(64))) = {0};
    const int64_t stride = j->f.stride;
    struct cursor cursor = {0, 0, 0};
    struct places places;
    widen_rows(j, dy, wide);
    for (int64_t first = 0; first < j->pixels; first += ROWS) {
        next_places(j, &cursor, &places);
        for (int64_t i = 0; i < stride * stride; i++)
            for (int64_t in = 0; in < j->g.in_blocks; in += 2) {
                const hd_bf16 *part = tiles + (i * j->g.in_blocks + in) * j->steps * TILE_ELEMENTS;
                if (j->g.in_blocks - in > 1)
                    multiply(j, wide + first * j->f.out_channels, part, true, product);
                else
                    multiply(j, wide + first * j->f.out_channels, part, false, product);
                store_pixels(j, &places, i / stride, i % stride, in, y, product, dx);
            }
    }
}

static void backward_data(const struct hd_conv_fields *f, const struct hd_conv_run *run,
                          int64_t batch, const void *dy, const void *y, void *dx)
{
    hd_bf16 *tiles = run->scratch, *wide = tiles + tiling_of(f).weights;
    hd_tiles_load(0, 0);
    for (int64_t n = 0; n < batch;) {
        const struct tiling j = tiling_of_batch(f, batch - n);
        const int64_t in = n * f->in_height * f->in_width * f->in_channels;
        const int64_t out = n * j.g.out_height * j.g.out_width * f->out_channels;
        data_of_some(&j, tiles, (const hd_bf16 *)dy + out, y ? (const hd_bf16 *)y + in : NULL,
                     (hd_bf16 *)dx + in, wide);
        n += j.images;
    }
    _tile_release();
}

const struct hd_conv_own hd_conv_amx_data = {.name = HD_CONV_AMX_NAME,
                                             .get_scratch_bytes = get_scratch_bytes,
                                             .begin = begin,
                                             .backward_data = backward_data};

#else

const struct hd_conv_own hd_conv_amx_data = {0};

#endif
