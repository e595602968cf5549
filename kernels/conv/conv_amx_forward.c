/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the kernel covers consecutive numbers of the input, [x][channel]. So the input is
 * multiplied in place, 32 of these numbers a step. A tile holds up to 16 neighbouring outputs. */
#include "kernels/conv/conv_amx_tiles_internal.h"

#ifdef HD_AMX

enum { TILE = HD_TILE_ROWS, STEP = 32, TILE_ELEMENTS = TILE * STEP, TILES = 4 /* at a time */ };

/* The sizes of a pass. Tiles of an image overlap where the outputs are not a multiple of their
 * rows. */
struct tiling {
    struct hd_conv_fields f;
    int64_t out_height, out_width;
    int64_t row_steps; /* for one row of the kernel */
    int64_t rows;      /* of a tile */
    int64_t lines;     /* lines of an image, which tiles are cut from */
    int64_t tiles;     /* of an image */
    int64_t run;       /* outputs in a line */
    int64_t
        width; /* row pitch of the outputs within the line; outputs in the gaps are not stored */
};

/* With stride 1 all outputs of an image form one line, if its rows are as wide as the input's;
 * otherwise each row of outputs is a line. */
static struct tiling tiling_of(const struct hd_conv_fields *f)
{
    struct tiling j = {.f = *f,
                       .out_height = (f->in_height - f->kernel) / f->stride + 1,
                       .out_width = (f->in_width - f->kernel) / f->stride + 1,
                       .row_steps = f->kernel * f->in_channels / STEP};
    const bool one_line = f->stride == 1;
    j.width = one_line ? f->in_width : j.out_width;
    j.run = one_line ? (j.out_height - 1) * j.width + j.out_width : j.out_width;
    const int64_t tiles = (j.run + TILE - 1) / TILE;
    j.rows = one_line ? (j.run < TILE ? j.run : TILE) : (j.run + tiles - 1) / tiles;
    j.lines = one_line ? 1 : j.out_height;
    j.tiles = tiles * j.lines;
    return j;
}

/* -- Products: tiles 0 … 3 are outputs, 4, 5 and 7 in turns input, 6 weights ------------------- */

/* The position of the next tile: image, line, offset in the line. */
struct cursor {
    int64_t image, line, start;
};

/* Some tiles of outputs: the address of each one's first input, the address of its image's outputs,
 * and the number of its first output. */
struct outputs {
    const hd_bf16 *x[TILES];
    hd_bf16 *image[TILES];
    int64_t first_y[TILES], first_x[TILES];
};

static void next_outputs(const struct tiling *j, int n, const hd_bf16 *x, hd_bf16 *y,
                         struct cursor *cursor, struct outputs *outputs)
{
    const struct hd_conv_fields *f = &j->f;
    const int64_t in_image = f->in_height * f->in_width * f->in_channels;
    const int64_t out_image = j->out_height * j->out_width * f->out_channels;
    for (int i = 0; i < n; i++) {
        const int64_t last = j->run - j->rows;
        const int64_t first = cursor->start < last ? cursor->start : last;
        outputs->first_y[i] = cursor->line + first / j->width;
        outputs->first_x[i] = first % j->width;
        outputs->image[i] = y + cursor->image * out_image;
        outputs->x[i] = x + cursor->image * in_image +
                        (cursor->line * f->in_width + first) * f->stride * f->in_channels;
        cursor->start += j->rows;
        if (cursor->start < j->run)
            continue;
        cursor->start = 0;
        if (++cursor->line == j->lines)
            cursor->line = 0, cursor->image++;
    }
}

#define START(i) _tile_loadd(i, bias, 0);
#define STORE(i) _tile_stored(i, product + (i)*TILE * TILE, 64);

HD_ALWAYS void multiply(const struct tiling *j, const struct outputs *outputs, int n,
                        const hd_bf16 *weights, const float *bias, struct hd_fetch *fetch,
                        float *product)
{
    const int64_t row = j->f.in_width * j->f.in_channels;
    const int64_t stride = j->f.stride * j->f.in_channels * (int64_t)sizeof(hd_bf16);
    hd_tiles_settle();
    START(0)
    if (n > 1)
        START(1)
    if (n > 2)
        START(2)
    if (n > 3)
        START(3)
    for (int64_t ky = 0; ky < j->f.kernel; ky++)
        for (int64_t s = 0; s < j->row_steps; s++, weights += TILE_ELEMENTS) {
            const int64_t at = ky * row + s * STEP;
            hd_fetch_some(fetch);
            _tile_loadd(6, weights, 64);
            _tile_loadd(4, outputs->x[0] + at, stride);
            _tile_dpbf16ps(0, 4, 6);
            if (n > 1) {
                _tile_loadd(5, outputs->x[1] + at, stride);
                _tile_dpbf16ps(1, 5, 6);
            }
            if (n > 2) {
                _tile_loadd(7, outputs->x[2] + at, stride);
                _tile_dpbf16ps(2, 7, 6);
            }
            if (n > 3) {
                _tile_loadd(4, outputs->x[3] + at, stride);
                _tile_dpbf16ps(3, 4, 6);
            }
        }
    STORE(0)
    if (n > 1)
        STORE(1)
    if (n > 2)
        STORE(2)
    if (n > 3)
        STORE(3)
    hd_tiles_settle();
}

/* Applies the ReLU if there is one, which keeps NaN, rounds and stores. */
static void store_outputs(const struct tiling *j, const struct outputs *outputs, int n, int64_t out,
                          const float *product)
{
    for (int i = 0; i < n; i++) {
        int64_t x = outputs->first_x[i];
        const int64_t outputs_before =
            outputs->first_y[i] * j->out_width + (x < j->out_width ? x : j->out_width);
        hd_bf16 *to = outputs->image[i] + outputs_before * j->f.out_channels + out;
        for (int64_t r = 0; r < j->rows; r++) {
            const __m512 value = _mm512_load_ps(product + (i * TILE + r) * TILE);
            const __m512 result = j->f.relu ? _mm512_max_ps(_mm512_setzero_ps(), value) : value;
            if (x < j->out_width) {
                _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(result));
                to += j->f.out_channels;
            }
            if (++x == j->width)
                x = 0;
        }
    }
}

static void multiply_tiles(const struct tiling *j, const struct outputs *outputs, int n,
                           const hd_bf16 *weights, const float *bias, struct hd_fetch *fetch,
                           float *product)
{
    switch (n) {
    case 1:
        multiply(j, outputs, 1, weights, bias, fetch, product);
        break;
    case 2:
        multiply(j, outputs, 2, weights, bias, fetch, product);
        break;
    case 3:
        multiply(j, outputs, 3, weights, bias, fetch, product);
        break;
    default:
        multiply(j, outputs, 4, weights, bias, fetch, product);
    }
}

static void forward(const struct hd_conv_fields *f, const struct hd_conv_run *run, int64_t batch,
                    const void *x, void *y)
{
    const hd_bf16 *shadow = run->weights;
    const struct tiling j = tiling_of(f);
    const int64_t all = batch * j.tiles, weights = f->kernel * j.row_steps * TILE_ELEMENTS;
    float product[TILES * TILE * TILE] __attribute__((aligned(64)));
    struct cursor cursor = {0, 0, 0};
    struct hd_fetch fetch =
        hd_fetch_make(&run->prefetch, (all + TILES - 1) / TILES * (f->out_channels / TILE) *
                                          f->kernel * j.row_steps);
    struct outputs outputs;
    hd_tiles_load(0xBF, (int)j.rows);
    for (int64_t tile = 0; tile < all; tile += TILES) {
        const int n = all - tile < TILES ? (int)(all - tile) : TILES;
        next_outputs(&j, n, x, y, &cursor, &outputs);
        for (int64_t o = 0; o < f->out_channels; o += TILE) {
            multiply_tiles(&j, &outputs, n, shadow + o / TILE * weights, run->bias + o, &fetch,
                           product);
            store_outputs(&j, &outputs, n, o, product);
        }
    }
    _tile_release();
}

const struct hd_conv_own hd_conv_amx_forward = {.name = HD_CONV_AMX_NAME, .forward = forward};

#else

const struct hd_conv_own hd_conv_amx_forward = {0};

#endif
