/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a weight is a product of two matrices whose summed index, the pixel, is
 * contiguous in both. */
#include "kernels/conv_amx_internal.h"

#ifdef HD_AMX

enum { TILE = HD_TILE_ROWS, CHANNELS = 32 /* at a time */, PIXELS = HD_CONV_PIXELS };
enum { BLOCK = TILE * TILE, TILE_ELEMENTS = TILE * PIXELS };
enum { CACHE_BYTES = 200 << 10 /* for moved runs */, SUMS = 8 /* vectors */ };

/* What is to be done, and how the pixels of an image are kept. */
struct job {
    struct hd_conv_fields f;
    struct hd_conv_geometry g;
    int64_t tiles;  /* that the run of outputs fills */
    int64_t pitch;  /* pixels, with what the run moves over */
    int64_t images; /* that are worked off together */
};

static struct job job_of(const struct hd_conv_fields *f)
{
    struct job j = {.f = *f, .g = hd_conv_geometry_of(f)};
    const int64_t pixels = (j.g.out_height - 1) * j.g.width + j.g.out_width;
    const int64_t farthest = (j.g.side - 1) * (j.g.width + 1);
    j.tiles = (pixels + PIXELS - 1) / PIXELS;
    j.pitch = (j.tiles * PIXELS + farthest + PIXELS - 1) / PIXELS * PIXELS;
    j.images = CACHE_BYTES / (j.g.side * j.g.side * j.tiles * 2 * HD_TILE_BYTES);
    j.images = j.images < 1 ? 1 : j.images;
    return j;
}

/* -- Gradient of the output: [block of channels][image][tile][16 pairs of pixels][16 channels][2] -
 */

/* Words of two rows, taken in turns: of 16 channels each. */
static __m512i in_turns(__m256i even, __m256i odd)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/* The gradient at a pixel of the wide rows; NULL: a gap. */
static const hd_bf16 *wide_pixel(const struct job *j, const hd_bf16 *dy, int64_t pixel)
{
    const int64_t y = pixel / j->g.width, x = pixel % j->g.width;
    if (y >= j->g.out_height || x >= j->g.out_width)
        return NULL;
    return dy + (y * j->g.out_width + x) * j->f.out_channels;
}

static __m256i channels_of(const hd_bf16 *pixel, int64_t block)
{
    return pixel ? _mm256_loadu_si256((const __m256i *)(pixel + block * TILE))
                 : _mm256_setzero_si256();
}

static void spread(const struct job *j, int64_t batch, const hd_bf16 *dy, hd_bf16 *wide)
{
    const int64_t image = j->g.out_height * j->g.out_width * j->f.out_channels;
    for (int64_t n = 0; n < batch; n++)
        for (int64_t p = 0; p < j->tiles * PIXELS; p += 2) {
            const hd_bf16 *even = wide_pixel(j, dy + n * image, p);
            const hd_bf16 *odd = wide_pixel(j, dy + n * image, p + 1);
            hd_bf16 *to = wide + n * j->tiles * TILE_ELEMENTS + p * TILE;
            for (int64_t b = 0; b < j->g.out_blocks; b++)
                _mm512_store_si512(to + b * batch * j->tiles * TILE_ELEMENTS,
                                   in_turns(channels_of(even, b), channels_of(odd, b)));
        }
}

HD_INLINE void add_some(int64_t pixels, int64_t channels, const hd_bf16 *dy, int vectors,
                        float *dbias)
{
    __m512 sum[SUMS];
    for (int v = 0; v < vectors; v++)
        sum[v] = _mm512_setzero_ps();
    for (int64_t p = 0; p < pixels; p++, dy += channels)
        for (int v = 0; v < vectors; v++) {
            const __m256i row = _mm256_loadu_si256((const __m256i *)(dy + v * HD_VEC));
            sum[v] = _mm512_add_ps(
                sum[v], _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(row), 16)));
        }
    for (int v = 0; v < vectors; v++)
        _mm512_storeu_ps(dbias + v * HD_VEC, sum[v]);
}

static void add_pixels(int64_t pixels, int64_t channels, const hd_bf16 *dy, float *dbias)
{
    int64_t c = 0;
    for (; c + SUMS * HD_VEC <= channels; c += SUMS * HD_VEC)
        add_some(pixels, channels, dy + c, SUMS, dbias + c);
    for (; c < channels; c += HD_VEC)
        add_some(pixels, channels, dy + c, 1, dbias + c);
}

/* -- Input: [image][32 channels][pitch], of every s-th pixel from (y, x) on
 * ------------------------
 */

struct source {
    const struct job *job;
    const hd_bf16 *x; /* of the image, at the first of the channels */
    int64_t first_y, first_x;
    __mmask32 there; /* channels */
};

static __m512i pixel_or_zero(const struct source *s, int64_t y, int64_t x)
{
    const struct hd_conv_fields *f = &s->job->f;
    const int64_t full_y = y * f->stride + s->first_y, full_x = x * f->stride + s->first_x;
    if (full_y >= f->in_height || full_x >= f->in_width)
        return _mm512_setzero_si512();
    return _mm512_maskz_loadu_epi16(s->there,
                                    s->x + (full_y * f->in_width + full_x) * f->in_channels);
}

/* 32 pixels of 32 channels, transposed. */
static void columns_of(const struct source *s, int64_t first, hd_bf16 *columns)
{
    const __m512i ramp = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i fours = _mm512_slli_epi32(ramp, 2);
    /* Words 0, 2, 4, … of two vectors one after another; and the odd ones. */
    const __m512i even = _mm512_or_si512(
        fours, _mm512_slli_epi32(_mm512_add_epi32(fours, _mm512_set1_epi32(2)), 16));
    const __m512i odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
    const int64_t width = s->job->g.width, pitch = s->job->pitch;
    int64_t y = first / width, x = first % width;
    hd_vec low[HD_VEC], high[HD_VEC];
    for (int i = 0; i < PIXELS; i++) {
        *(i < TILE ? &low[i] : &high[i - TILE]) = (hd_vec)pixel_or_zero(s, y, x);
        if (++x == width)
            x = 0, y++;
    }
    hd_vec_transpose(low);
    hd_vec_transpose(high);
    for (int c = 0; c < TILE; c++) {
        const __m512i a = (__m512i)low[c], b = (__m512i)high[c];
        _mm512_store_si512(columns + 2 * c * pitch + first, _mm512_permutex2var_epi16(a, even, b));
        _mm512_store_si512(columns + (2 * c + 1) * pitch + first,
                           _mm512_permutex2var_epi16(a, odd, b));
    }
}

static void transpose(const struct job *j, int64_t batch, const hd_bf16 *x, int64_t first_y,
                      int64_t first_x, int64_t block, hd_bf16 *columns)
{
    struct source s = {.job = j, .first_y = first_y, .first_x = first_x};
    s.there = j->g.in_blocks - block > 1 ? 0xFFFFFFFF : 0xFFFF;
    for (int64_t n = 0; n < batch; n++) {
        s.x = x + n * j->f.in_height * j->f.in_width * j->f.in_channels + block * TILE;
        for (int64_t p = 0; p < j->pitch; p += PIXELS)
            columns_of(&s, p, columns + n * CHANNELS * j->pitch);
    }
}

/* Runs of pixels from `move` on, as tiles: [image][tile][2 blocks of channels][16][32 pixels]. A
 * tile whose rows begin anywhere costs twice as much to load as one that lies in whole lines. */
static void move_pixels(const struct job *j, int64_t batch, const hd_bf16 *columns, int64_t move,
                        hd_bf16 *tiles)
{
    for (int64_t n = 0; n < batch; n++)
        for (int64_t t = 0; t < j->tiles; t++, tiles += 2 * TILE_ELEMENTS)
            for (int64_t c = 0; c < CHANNELS; c++) {
                const hd_bf16 *from = columns + (n * CHANNELS + c) * j->pitch + t * PIXELS + move;
                _mm512_store_si512(tiles + c * PIXELS, _mm512_loadu_si512(from));
            }
}

/* -- Products: tiles 0 … 3 are weights of two blocks of input by two of output channels, 4 and 5
 * the input, 6 and 7 the output
 * ---------------------------------------------------------------------
 */

struct product {
    const hd_bf16 *moved; /* input */
    const hd_bf16 *wide;  /* output */
    int64_t next;         /* of the output, from one block of channels to the next */
    int64_t tiles;        /* of all images */
    float *dw;
    int64_t next_in, next_out; /* from one block of weights to the next */
    bool start;                /* dw has nothing yet */
};

#define FOR_TILES(call)                                                                            \
    call(0, 0);                                                                                    \
    if (two_out)                                                                                   \
        call(1, p->next_out);                                                                      \
    if (two_in)                                                                                    \
        call(2, p->next_in);                                                                       \
    if (two_in && two_out)                                                                         \
        call(3, p->next_in + p->next_out);
#define ZERO(tile, at) _tile_zero(tile)
#define LOAD(tile, at) _tile_loadd(tile, p->dw + (at), 64)
#define STORE(tile, at) _tile_stored(tile, p->dw + (at), 64)

HD_INLINE void multiply(const struct product *p, bool two_in, bool two_out)
{
    hd_tiles_settle();
    if (p->start) {
        FOR_TILES(ZERO)
    } else {
        FOR_TILES(LOAD)
    }
    for (int64_t t = 0; t < p->tiles; t++) {
        const hd_bf16 *a = p->moved + t * 2 * TILE_ELEMENTS, *b = p->wide + t * TILE_ELEMENTS;
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (two_out) {
            _tile_loadd(7, b + p->next, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_in) {
            _tile_loadd(5, a + TILE_ELEMENTS, 64);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (two_in && two_out)
            _tile_dpbf16ps(3, 5, 7);
    }
    FOR_TILES(STORE)
    hd_tiles_settle();
}

static void run(const struct product *p, bool two_in, bool two_out)
{
    if (two_in && two_out)
        multiply(p, true, true);
    else if (two_in)
        multiply(p, true, false);
    else if (two_out)
        multiply(p, false, true);
    else
        multiply(p, false, false);
}

/* All weights that meet the pixels from (first_y, first_x) on of input channels `block` and the
 * next; `moved` is room for the runs of all of them. */
static void weights_of(const struct job *j, int64_t batch, const hd_bf16 *columns,
                       const hd_bf16 *wide, int64_t first_y, int64_t first_x, int64_t block,
                       bool start, hd_bf16 *moved, float *dweights)
{
    const int64_t side = j->g.side, area = j->f.kernel * j->f.kernel;
    const int64_t run_elements = batch * j->tiles * 2 * TILE_ELEMENTS;
    struct product p = {.next = batch * j->tiles * TILE_ELEMENTS,
                        .tiles = batch * j->tiles,
                        .next_in = area * BLOCK,
                        .next_out = j->g.in_blocks * area * BLOCK,
                        .start = start};
    for (int64_t k = 0; k < side * side; k++)
        move_pixels(j, batch, columns, k / side * j->g.width + k % side, moved + k * run_elements);
    for (int64_t o = 0; o < j->g.out_blocks; o += 2)
        for (int64_t k = 0; k < side * side; k++) {
            int64_t ky = k / side * j->f.stride + first_y, kx = k % side * j->f.stride + first_x;
            p.moved = moved + k * run_elements;
            p.wide = wide + o * p.next;
            p.dw = dweights + ((o * j->g.in_blocks + block) * area + ky * j->f.kernel + kx) * BLOCK;
            run(&p, j->g.in_blocks - block > 1, j->g.out_blocks - o > 1);
        }
}

/* Scratch, in elements. */
struct room {
    int64_t wide, columns, moved;
};

static struct room room_of(const struct job *j, int64_t images)
{
    return (struct room){j->g.out_blocks * images * j->tiles * TILE_ELEMENTS,
                         images * CHANNELS * j->pitch,
                         j->g.side * j->g.side * images * j->tiles * 2 * TILE_ELEMENTS};
}

int64_t hd_conv_amx_weights_scratch(const struct hd_conv_fields *f, int64_t batch)
{
    const struct job j = job_of(f);
    const struct room room = room_of(&j, batch < j.images ? batch : j.images);
    return (room.wide + room.columns + room.moved) * (int64_t)sizeof(hd_bf16);
}

void hd_conv_amx_weights(const struct hd_conv_fields *f, int64_t batch, const hd_bf16 *x,
                         const hd_bf16 *dy, float *dweights, float *dbias, void *scratch)
{
    const struct job j = job_of(f);
    const int64_t in_image = f->in_height * f->in_width * f->in_channels;
    const int64_t out_image = j.g.out_height * j.g.out_width * f->out_channels;
    add_pixels(batch * j.g.out_height * j.g.out_width, f->out_channels, dy, dbias);
    hd_tiles_load(0, 0);
    for (int64_t n = 0; n < batch; n += j.images) {
        const int64_t images = batch - n < j.images ? batch - n : j.images;
        const struct room room = room_of(&j, images);
        hd_bf16 *wide = scratch, *columns = wide + room.wide, *moved = columns + room.columns;
        spread(&j, images, dy + n * out_image, wide);
        for (int64_t i = 0; i < f->stride * f->stride; i++)
            for (int64_t b = 0; b < j.g.in_blocks; b += 2) {
                const int64_t first_y = i / f->stride, first_x = i % f->stride;
                transpose(&j, images, x + n * in_image, first_y, first_x, b, columns);
                weights_of(&j, images, columns, wide, first_y, first_x, b, n == 0, moved, dweights);
            }
    }
    _tile_release();
}

#else

int64_t hd_conv_amx_weights_scratch(const struct hd_conv_fields *f, int64_t batch)
{
    (void)f, (void)batch;
    return 0;
}

void hd_conv_amx_weights(const struct hd_conv_fields *f, int64_t batch, const hd_bf16 *x,
                         const hd_bf16 *dy, float *dweights, float *dbias, void *scratch)
{
    (void)f, (void)batch, (void)x, (void)dy, (void)dweights, (void)dbias, (void)scratch;
}

#endif
