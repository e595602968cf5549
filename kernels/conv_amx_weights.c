/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a weight is a product of two matrices whose summed index is the pixel. Of 32
 * pixels that a tile sums over, j and j + 16 are a pair. The input is kept as a row of such pairs
 * for every pixel, so that a run of pixels that a weight moves by any number is a run of rows: each
 * pixel is put in order once, whatever the kernel. */
#include "kernels/conv_amx_internal.h"
#include "runtime/base/alloc.h"

#ifdef HD_AMX

enum { TILE = HD_TILE_ROWS, PIXELS = HD_CONV_PIXELS, HALF = PIXELS / 2, GROUP = 2 /* blocks */ };
enum { BLOCK = TILE * TILE, TILE_ELEMENTS = TILE * PIXELS, ROW = 2 * TILE };
enum { CACHE_BYTES = 640 << 10 /* for what is in order */, SUMS = 8 /* vectors */ };

/* What is to be done, and how the pixels of an image are kept. */
struct job {
    struct hd_conv_fields f;
    struct hd_conv_geometry g;
    int64_t tiles;  /* that the run of outputs fills */
    int64_t rows;   /* of pairs, with what the run moves over */
    int64_t images; /* that are worked off together */
};

static struct job job_of(const struct hd_conv_fields *f)
{
    struct job j = {.f = *f, .g = hd_conv_geometry_of(f)};
    const int64_t pixels = (j.g.out_height - 1) * j.g.width + j.g.out_width;
    const int64_t farthest = (j.g.side - 1) * (j.g.width + 1);
    j.tiles = (pixels + PIXELS - 1) / PIXELS;
    j.rows = j.tiles * PIXELS - HALF + farthest;
    const int64_t elements = j.g.out_blocks * j.tiles * TILE_ELEMENTS + GROUP * j.rows * ROW;
    j.images = CACHE_BYTES / (elements * (int64_t)sizeof(hd_bf16));
    j.images = j.images < 1 ? 1 : j.images;
    return j;
}

/* -- Gradient of the output: [block of channels][image][tile][16 channels][16 pairs of pixels], of
 * rows as wide as the image's with zeros in the gaps ----------------------------------------------
 */

/* Where in an image's gradient the pixels of the wide rows are; -1: a gap. */
static void find_outputs(const struct job *j, int32_t *at)
{
    int64_t y = 0, x = 0;
    for (int64_t p = 0; p < j->tiles * PIXELS; p++) {
        const bool there = y < j->g.out_height && x < j->g.out_width;
        at[p] = there ? (int32_t)((y * j->g.out_width + x) * j->f.out_channels) : -1;
        if (++x == j->g.width)
            x = 0, y++;
    }
}

static hd_vec load_pixel(const hd_bf16 *image, int32_t at, __mmask32 there)
{
    return (hd_vec)(at < 0 ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(there, image + at));
}

/* 32 pixels of 32 channels, transposed: tiles of 16 channels `next` apart. */
static void columns_of(const hd_bf16 *dy, const int32_t *at, bool two, hd_bf16 *tile, int64_t next)
{
    hd_vec low[HD_VEC], high[HD_VEC];
    for (int i = 0; i < HALF; i++) {
        low[i] = load_pixel(dy, at[i], two ? 0xFFFFFFFF : 0xFFFF);
        high[i] = load_pixel(dy, at[HALF + i], two ? 0xFFFFFFFF : 0xFFFF);
    }
    hd_vec_transpose(low);
    hd_vec_transpose(high);
    for (int c = 0; c < (two ? TILE : TILE / 2); c++) {
        hd_bf16 *to = tile + c / (TILE / 2) * next + c % (TILE / 2) * 2 * PIXELS;
        const __m512i a = (__m512i)low[c], b = (__m512i)high[c];
        _mm512_store_si512(to, hd_pairs_first(a, b));
        _mm512_store_si512(to + PIXELS, hd_pairs_second(a, b));
    }
}

static void transpose(const struct job *j, int64_t images, const hd_bf16 *dy, const int32_t *at,
                      hd_bf16 *columns)
{
    const int64_t image = j->g.out_height * j->g.out_width * j->f.out_channels;
    const int64_t next = images * j->tiles * TILE_ELEMENTS;
    for (int64_t n = 0; n < images; n++, dy += image)
        for (int64_t b = 0; b < j->g.out_blocks; b += GROUP)
            for (int64_t t = 0; t < j->tiles; t++)
                columns_of(dy + b * TILE, at + t * PIXELS, j->g.out_blocks - b > 1,
                           columns + b * next + (n * j->tiles + t) * TILE_ELEMENTS, next);
}

/* To what dbias has, or to nothing. */
HD_INLINE void add_some(int64_t pixels, int64_t channels, const hd_bf16 *dy, bool start,
                        int vectors, float *dbias)
{
    __m512 sum[SUMS];
    for (int v = 0; v < vectors; v++)
        sum[v] = start ? _mm512_setzero_ps() : _mm512_loadu_ps(dbias + v * HD_VEC);
    for (int64_t p = 0; p < pixels; p++, dy += channels)
        for (int v = 0; v < vectors; v++) {
            const __m256i row = _mm256_loadu_si256((const __m256i *)(dy + v * HD_VEC));
            sum[v] = _mm512_add_ps(
                sum[v], _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(row), 16)));
        }
    for (int v = 0; v < vectors; v++)
        _mm512_storeu_ps(dbias + v * HD_VEC, sum[v]);
}

static void add_pixels(int64_t pixels, int64_t channels, const hd_bf16 *dy, bool start,
                       float *dbias)
{
    int64_t c = 0;
    for (; c + SUMS * HD_VEC <= channels; c += SUMS * HD_VEC)
        add_some(pixels, channels, dy + c, start, SUMS, dbias + c);
    for (; c + SUMS / 2 * HD_VEC <= channels; c += SUMS / 2 * HD_VEC)
        add_some(pixels, channels, dy + c, start, SUMS / 2, dbias + c);
    for (; c < channels; c += HD_VEC)
        add_some(pixels, channels, dy + c, start, 1, dbias + c);
}

/* -- Input: [block of channels][image][row][16 channels][2], of every s-th pixel from (y, x) on.
 * Row q pairs pixels q and q + 16. Channels go where instructions that work within quarters put
 * them
 * (`channel_of`) ----------------------------------------------------------------------------------
 */

/* The pixels from (first_y, first_x) on. */
struct source {
    const struct job *job;
    int64_t first_y, first_x;
};

/* Where in an image of the input these pixels are, of all rows and half a tile more; -1: beyond
 * it. */
static void find_inputs(const struct source *s, int32_t *at)
{
    const struct hd_conv_fields *f = &s->job->f;
    int64_t y = s->first_y, x = s->first_x, column = 0;
    for (int64_t p = 0; p < s->job->rows + HALF; p++) {
        const bool there = y < f->in_height && x < f->in_width;
        at[p] = there ? (int32_t)((y * f->in_width + x) * f->in_channels) : -1;
        x += f->stride;
        if (++column == s->job->g.width)
            column = 0, x = s->first_x, y += f->stride;
    }
}

static __m512i load_two(const hd_bf16 *image, int32_t at)
{
    return at < 0 ? _mm512_setzero_si512() : _mm512_loadu_si512(image + at);
}

static __m256i load_one(const hd_bf16 *image, int32_t at)
{
    return at < 0 ? _mm256_setzero_si256() : _mm256_loadu_si256((const __m256i *)(image + at));
}

static void pair_two(int64_t rows, const hd_bf16 *x, const int32_t *at, hd_bf16 *to, int64_t next)
{
    for (int64_t q = 0; q < rows; q++, to += ROW) {
        const __m512i low = load_two(x, at[q]), high = load_two(x, at[q + HALF]);
        _mm512_store_si512(to, _mm512_unpacklo_epi16(low, high));
        _mm512_store_si512(to + next, _mm512_unpackhi_epi16(low, high));
    }
}

static void pair_one(int64_t rows, const hd_bf16 *x, const int32_t *at, hd_bf16 *to)
{
    for (int64_t q = 0; q < rows; q++, to += ROW) {
        const __m256i low = load_one(x, at[q]), high = load_one(x, at[q + HALF]);
        _mm256_store_si256((__m256i *)to, _mm256_unpacklo_epi16(low, high));
        _mm256_store_si256((__m256i *)(to + TILE), _mm256_unpackhi_epi16(low, high));
    }
}

/* Channel of a group that column `c` of its block `b` is. */
static int channel_of(bool two, int b, int c)
{
    const int quarter = c / 4, in_quarter = c % 4;
    if (two)
        return quarter * 8 + b * 4 + in_quarter;
    return quarter % 2 * 8 + quarter / 2 * 4 + in_quarter;
}

/* Pixels of some images, `x` at the first of the channels. */
static void pair_pixels(const struct job *j, int64_t images, const hd_bf16 *x, const int32_t *at,
                        bool two, hd_bf16 *pairs)
{
    const int64_t image = j->f.in_height * j->f.in_width * j->f.in_channels, size = j->rows * ROW;
    for (int64_t n = 0; n < images; n++)
        if (two)
            pair_two(j->rows, x + n * image, at, pairs + n * size, images * size);
        else
            pair_one(j->rows, x + n * image, at, pairs + n * size);
}

/* -- Products: tiles 0 … 3 are weights of two blocks of output by two of input channels, 4 and 5
 * the output, 6 and 7 the input -------------------------------------------------------------------
 */

struct product {
    const struct job *job;
    int64_t images;
    const hd_bf16 *columns, *pairs;   /* output, input */
    int64_t next_columns, next_pairs; /* from one block of channels to the next */
    float *dw;                        /* [16 outputs][16 columns of the input] */
    int64_t next_out, next_in;        /* from one block of weights to the next */
    bool start;                       /* dw has nothing yet */
};

#define FOR_TILES(call)                                                                            \
    call(0, 0);                                                                                    \
    if (two_in)                                                                                    \
        call(1, p->next_in);                                                                       \
    if (two_out)                                                                                   \
        call(2, p->next_out);                                                                      \
    if (two_in && two_out)                                                                         \
        call(3, p->next_in + p->next_out);
#define ZERO(tile, at) _tile_zero(tile)
#define LOAD(tile, at) _tile_loadd(tile, p->dw + (at), 64)
#define STORE(tile, at) _tile_stored(tile, p->dw + (at), 64)

HD_INLINE void multiply(const struct product *p, bool two_in, bool two_out)
{
    const hd_bf16 *a = p->columns;
    hd_tiles_settle();
    if (p->start) {
        FOR_TILES(ZERO)
    } else {
        FOR_TILES(LOAD)
    }
    for (int64_t n = 0; n < p->images; n++) {
        const hd_bf16 *b = p->pairs + n * p->job->rows * ROW;
        for (int64_t t = 0; t < p->job->tiles; t++, a += TILE_ELEMENTS, b += PIXELS * ROW) {
            _tile_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            if (two_in) {
                _tile_loadd(7, b + p->next_pairs, 64);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (two_out) {
                _tile_loadd(5, a + p->next_columns, 64);
                _tile_dpbf16ps(2, 5, 6);
            }
            if (two_in && two_out)
                _tile_dpbf16ps(3, 5, 7);
        }
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

/* All weights that meet the pixels of `s` of input channels `block` and the next. */
static void weights_of(const struct source *s, int64_t images, const hd_bf16 *columns,
                       const hd_bf16 *pairs, int64_t block, bool start, float *dweights)
{
    const struct job *j = s->job;
    const int64_t side = j->g.side, area = j->f.kernel * j->f.kernel;
    struct product p = {.job = j,
                        .images = images,
                        .next_columns = images * j->tiles * TILE_ELEMENTS,
                        .next_pairs = images * j->rows * ROW,
                        .next_in = area * BLOCK,
                        .next_out = j->g.in_blocks * area * BLOCK,
                        .start = start};
    for (int64_t o = 0; o < j->g.out_blocks; o += GROUP)
        for (int64_t k = 0; k < side * side; k++) {
            const int64_t ky = k / side * j->f.stride + s->first_y;
            const int64_t kx = k % side * j->f.stride + s->first_x;
            p.columns = columns + o * p.next_columns;
            p.pairs = pairs + (k / side * j->g.width + k % side) * ROW;
            p.dw = dweights + ((o * j->g.in_blocks + block) * area + ky * j->f.kernel + kx) * BLOCK;
            run(&p, j->g.in_blocks - block > 1, j->g.out_blocks - o > 1);
        }
}

/* Of one block of outputs and a group of inputs at a place of the kernel: from [output][column] to
 * [input][output]. */
static void finish(bool two, int64_t next, float *dw)
{
    hd_vec column[GROUP][HD_VEC];
    for (int b = 0; b < (two ? 2 : 1); b++) {
        for (int o = 0; o < TILE; o++)
            column[b][o] = hd_vec_load(dw + b * next + o * TILE);
        hd_vec_transpose(column[b]);
    }
    for (int b = 0; b < (two ? 2 : 1); b++)
        for (int c = 0; c < TILE; c++) {
            const int channel = channel_of(two, b, c);
            hd_vec_store(dw + channel / TILE * next + channel % TILE * TILE, column[b][c]);
        }
}

void hd_conv_amx_weights_end(const struct hd_conv_fields *f, float *dweights)
{
    const struct hd_conv_geometry g = hd_conv_geometry_of(f);
    const int64_t area = f->kernel * f->kernel;
    for (int64_t o = 0; o < g.out_blocks; o++)
        for (int64_t in = 0; in < g.in_blocks; in += GROUP)
            for (int64_t k = 0; k < area; k++)
                finish(g.in_blocks - in > 1, area * BLOCK,
                       dweights + ((o * g.in_blocks + in) * area + k) * BLOCK);
}

/* Scratch. */
struct room {
    int32_t *outputs, *inputs; /* where pixels are */
    hd_bf16 *columns, *pairs;
    int64_t bytes;
};

static struct room lay_out(const struct job *j, int64_t images, char *scratch)
{
    const int64_t outputs = hd_padded(j->tiles * PIXELS * (int64_t)sizeof(int32_t));
    const int64_t inputs = hd_padded((j->rows + HALF) * (int64_t)sizeof(int32_t));
    const int64_t columns = j->g.out_blocks * images * j->tiles * HD_TILE_BYTES;
    const int64_t pairs = GROUP * images * j->rows * ROW * (int64_t)sizeof(hd_bf16);
    struct room room = {.outputs = (int32_t *)scratch};
    room.inputs = (int32_t *)(scratch + outputs);
    room.columns = (hd_bf16 *)(scratch + outputs + inputs);
    room.pairs = (hd_bf16 *)(scratch + outputs + inputs + columns);
    room.bytes = outputs + inputs + columns + pairs;
    return room;
}

int64_t hd_conv_amx_weights_scratch(const struct hd_conv_fields *f, int64_t most)
{
    static char origin[64] __attribute__((aligned(64)));
    const struct job j = job_of(f);
    return lay_out(&j, most < j.images ? most : j.images, origin).bytes;
}

/* The images that are worked off together. */
static void add_images(const struct job *j, int64_t images, const hd_bf16 *x, const hd_bf16 *dy,
                       bool start, float *dweights, float *dbias, const struct room *room)
{
    const int64_t stride = j->f.stride;
    transpose(j, images, dy, room->outputs, room->columns);
    add_pixels(images * j->g.out_height * j->g.out_width, j->f.out_channels, dy, start, dbias);
    for (int64_t i = 0; i < stride * stride; i++) {
        const struct source s = {j, i / stride, i % stride};
        find_inputs(&s, room->inputs);
        for (int64_t b = 0; b < j->g.in_blocks; b += GROUP) {
            pair_pixels(j, images, x + b * TILE, room->inputs, j->g.in_blocks - b > 1, room->pairs);
            weights_of(&s, images, room->columns, room->pairs, b, start, dweights);
        }
    }
}

void hd_conv_amx_weights(const struct hd_conv_fields *f, int64_t batch, const hd_bf16 *x,
                         const hd_bf16 *dy, bool start, float *dweights, float *dbias,
                         void *scratch)
{
    const struct job j = job_of(f);
    const int64_t in_image = f->in_height * f->in_width * f->in_channels;
    const int64_t out_image = j.g.out_height * j.g.out_width * f->out_channels;
    hd_tiles_load(0, 0);
    for (int64_t n = 0; n < batch; n += j.images, start = false) {
        const int64_t images = batch - n < j.images ? batch - n : j.images;
        const struct room room = lay_out(&j, images, scratch);
        if (n == 0)
            find_outputs(&j, room.outputs);
        add_images(&j, images, x + n * in_image, dy + n * out_image, start, dweights, dbias, &room);
    }
    _tile_release();
}

#else

int64_t hd_conv_amx_weights_scratch(const struct hd_conv_fields *f, int64_t most)
{
    (void)f, (void)most;
    return 0;
}

void hd_conv_amx_weights(const struct hd_conv_fields *f, int64_t batch, const hd_bf16 *x,
                         const hd_bf16 *dy, bool start, float *dweights, float *dbias,
                         void *scratch)
{
    (void)f, (void)batch, (void)x, (void)dy, (void)start, (void)dweights, (void)dbias;
    (void)scratch;
}

void hd_conv_amx_weights_end(const struct hd_conv_fields *f, float *dweights)
{
    (void)f, (void)dweights;
}

#endif
