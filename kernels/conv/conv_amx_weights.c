/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a weight is a product of two matrices whose summed index is the pixel, for a pair
 * of images at a time: each sum has 16 pixels of both. The input is kept as one row for each pixel,
 * so that moving a run of pixels by any number gives another run of rows. Each pixel is therefore
 * rearranged once, whatever the size of the kernel. */
#include "kernels/conv/conv_amx_tiles_internal.h"
#include "runtime/base/alloc.h"

#ifdef HD_AMX

enum { TILE = HD_TILE_ROWS, PAIR = 2, ROW = PAIR * TILE, TILE_ELEMENTS = TILE * ROW };
enum { BLOCK = TILE * TILE, GROUP = 2 /* blocks of channels */, TAPS = 4 };
enum { CACHE_BYTES = 320 << 10 /* for the rearranged images */ };

/* The sizes of a pass, and how the pixels of an image are kept. */
struct tiling {
    struct hd_conv_fields f;
    struct hd_conv_geometry g;
    int64_t tiles; /* tiles that the run of outputs fills */
    int64_t rows;  /* rows of the input, including those that the run moves over */
    int64_t pairs; /* pairs of images that are processed together */
    int64_t in_image, out_image;
};

static struct tiling tiling_of(const struct hd_conv_fields *f)
{
    struct tiling j = {.f = *f, .g = hd_conv_geometry_make(f)};
    const int64_t pixels = (j.g.out_height - 1) * j.g.width + j.g.out_width;
    j.tiles = (pixels + TILE - 1) / TILE;
    j.rows = j.tiles * TILE + (j.g.side - 1) * (j.g.width + 1);
    const int64_t elements = j.g.out_blocks * j.tiles * TILE_ELEMENTS + GROUP * j.rows * ROW;
    j.pairs = CACHE_BYTES / (elements * (int64_t)sizeof(hd_bf16));
    j.pairs = j.pairs < 1 ? 1 : j.pairs;
    j.in_image = f->in_height * f->in_width * f->in_channels;
    j.out_image = j.g.out_height * j.g.out_width * f->out_channels;
    return j;
}

/* Two images from one channel on; the second is NULL if there is none. */
struct images {
    const hd_bf16 *first, *second;
};

static struct images images_at(const hd_bf16 *all, int64_t pair, int64_t images, int64_t image)
{
    const hd_bf16 *first = all + PAIR * pair * image;
    return (struct images){first, PAIR * pair + 1 < images ? first + image : NULL};
}

/* Loads a pixel of 32 channels; zeros if at < 0. */
static __m512i load_two(const hd_bf16 *image, int32_t at)
{
    return !image || at < 0 ? _mm512_setzero_si512() : _mm512_loadu_si512(image + at);
}

/* Loads 16 channels of a pixel; zeros if at < 0. */
static __m512i load_one(const hd_bf16 *image, int32_t at)
{
    return _mm512_castsi256_si512(!image || at < 0
                                      ? _mm256_setzero_si256()
                                      : _mm256_loadu_si256((const __m256i *)(image + at)));
}

/* Interleaves 16 channels of a pixel of both images: those of one block of a group. Channels are in
 * the order that instructions within quarters of a vector give (channel_of). */
HD_ALWAYS __m512i turns_of(const struct images *x, int32_t at, bool two, int block)
{
    if (two) {
        const __m512i a = load_two(x->first, at), b = load_two(x->second, at);
        return block == 0 ? _mm512_unpacklo_epi16(a, b) : _mm512_unpackhi_epi16(a, b);
    }
    const __m512i a = load_one(x->first, at), b = load_one(x->second, at);
    const __m256i low = _mm256_unpacklo_epi16(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b));
    const __m256i high =
        _mm256_unpackhi_epi16(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Returns the channel of a group that is column `c` of its block `b`. */
static int channel_of(bool two, int b, int c)
{
    const int quarter = c / 4, in_quarter = c % 4;
    if (two)
        return quarter * 8 + b * 4 + in_quarter;
    return quarter % 2 * 8 + quarter / 2 * 4 + in_quarter;
}

/* -- Gradient of the output: [block of channels][pair][tile][16 channels][16 pixels][2], of rows as
 wide as the image's with zeros in the gaps  */

/* Fills `at` with the index, in an image's gradient, of each pixel of the wide rows; -1 for a
 * gap. */
static void find_outputs(const struct tiling *j, int32_t *at)
{
    int64_t y = 0, x = 0;
    for (int64_t p = 0; p < j->tiles * TILE; p++) {
        const bool there = y < j->g.out_height && x < j->g.out_width;
        at[p] = there ? (int32_t)((y * j->g.out_width + x) * j->f.out_channels) : -1;
        if (++x == j->g.width)
            x = 0, y++;
    }
}

/* Transposes 16 pixels of a group of channels: the channels of `block`, in the order of turns_of,
 * each in a row of its own; blocks lie `next` apart. */
HD_ALWAYS void transpose_tile(const struct images *dy, const int32_t *at, bool two, int block,
                              hd_bf16 *tile, int64_t next)
{
    hd_vec row[HD_VEC];
    for (int i = 0; i < TILE; i++)
        row[i] = (hd_vec)turns_of(dy, at[i], two, block);
    hd_vec_transpose(row);
    for (int c = 0; c < TILE; c++) {
        const int channel = channel_of(two, block, c);
        _mm512_store_si512(tile + channel / TILE * next + channel % TILE * ROW, (__m512i)row[c]);
    }
}

static void transpose(const struct tiling *j, const struct images *dy, const int32_t *at, bool two,
                      hd_bf16 *columns, int64_t next)
{
    for (int64_t t = 0; t < j->tiles; t++, at += TILE, columns += TILE_ELEMENTS)
        if (two) {
            transpose_tile(dy, at, true, 0, columns, next);
            transpose_tile(dy, at, true, 1, columns, next);
        } else {
            transpose_tile(dy, at, false, 0, columns, next);
        }
}

/* -- Gradient of the bias ---------------------------------------------------------------------- */

/* Adds pixels of up to 32 channels, in AT_ONCE sums of even channels and as many of odd ones. A
 * product with 1 and 0 selects one of a pair. */
static void add_channels(int64_t pixels, int64_t channels, const hd_bf16 *dy, __mmask32 there,
                         bool start, float *dbias)
{
    enum { AT_ONCE = 4 };
    const __m512bh first = (__m512bh)_mm512_set1_epi32(0x3F80);
    const __m512bh second = (__m512bh)_mm512_set1_epi32(0x3F800000);
    __m512 sum[2][AT_ONCE] = {{{0}}};
    float of[2][HD_VEC];
    for (int64_t p = 0; p < pixels; p += AT_ONCE)
        for (int i = 0; i < AT_ONCE; i++) {
            const __mmask32 some = p + i < pixels ? there : 0;
            const __m512bh row = (__m512bh)_mm512_maskz_loadu_epi16(some, dy + (p + i) * channels);
            sum[0][i] = _mm512_dpbf16_ps(sum[0][i], row, first);
            sum[1][i] = _mm512_dpbf16_ps(sum[1][i], row, second);
        }
    for (int k = 0; k < 2; k++)
        _mm512_storeu_ps(of[k], (sum[k][0] + sum[k][1]) + (sum[k][2] + sum[k][3]));
    for (int c = 0; c < ROW && there >> c & 1; c++)
        dbias[c] = start ? of[c % 2][c / 2] : dbias[c] + of[c % 2][c / 2];
}

static void add_pixels(int64_t pixels, int64_t channels, const hd_bf16 *dy, bool start,
                       float *dbias)
{
    for (int64_t c = 0; c < channels; c += ROW)
        add_channels(pixels, channels, dy + c, channels - c < ROW ? 0xFFFF : 0xFFFFFFFF, start,
                     dbias + c);
}

/* -- Input: [block of channels][pair][row][16 channels][2], of every s-th pixel from (y, x) on - */

/* The pixels from (first_y, first_x) on. */
struct source {
    const struct tiling *tiling;
    int64_t first_y, first_x;
};

/* Fills `at` with the index of these pixels in an image of the input; -1 beyond it. */
static void find_inputs(const struct source *s, int32_t *at)
{
    const struct hd_conv_fields *f = &s->tiling->f;
    int64_t y = s->first_y, x = s->first_x, column = 0;
    for (int64_t p = 0; p < s->tiling->rows; p++) {
        const bool there = y < f->in_height && x < f->in_width;
        at[p] = there ? (int32_t)((y * f->in_width + x) * f->in_channels) : -1;
        x += f->stride;
        if (++column == s->tiling->g.width)
            column = 0, x = s->first_x, y += f->stride;
    }
}

static void put_in_order(const struct tiling *j, const struct images *x, const int32_t *at,
                         bool two, hd_bf16 *rows, int64_t next)
{
    for (int64_t q = 0; q < j->rows && two; q++) {
        _mm512_store_si512(rows + q * ROW, turns_of(x, at[q], true, 0));
        _mm512_store_si512(rows + next + q * ROW, turns_of(x, at[q], true, 1));
    }
    for (int64_t q = 0; q < j->rows && !two; q++)
        _mm512_store_si512(rows + q * ROW, turns_of(x, at[q], false, 0));
}

/* -- Products: tiles 0 … 3 are weights of one block of output by one of input channels at four
 places of the kernel, 4 the output, 5, 6 and 7 in turns the input, moved  */

struct product {
    const struct tiling *tiling;
    int64_t pairs;
    const hd_bf16 *columns;    /* output */
    const hd_bf16 *rows[TAPS]; /* input */
    float *dw[TAPS];           /* [16 outputs][16 columns of the input] */
    bool start;                /* true: dw holds nothing yet */
    struct hd_fetch *fetch;
};

#define FOR_TAPS(call)                                                                             \
    call(0);                                                                                       \
    if (n > 1)                                                                                     \
        call(1);                                                                                   \
    if (n > 2)                                                                                     \
        call(2);                                                                                   \
    if (n > 3)                                                                                     \
        call(3);
#define ZERO(tile) _tile_zero(tile)
#define LOAD(tile) _tile_loadd(tile, p->dw[tile], 64)
#define STORE(tile) _tile_stored(tile, p->dw[tile], 64)

/* Multiplies for `n` places of the kernel: the input differs little from one to the next and is
 * then in the first-level cache. */
HD_ALWAYS void multiply(const struct product *p, int n)
{
    const hd_bf16 *a = p->columns;
    hd_tiles_settle();
    if (p->start) {
        FOR_TAPS(ZERO)
    } else {
        FOR_TAPS(LOAD)
    }
    for (int64_t pair = 0; pair < p->pairs; pair++) {
        int64_t at = pair * p->tiling->rows * ROW;
        for (int64_t t = 0; t < p->tiling->tiles; t++, a += TILE_ELEMENTS, at += TILE * ROW) {
            hd_fetch_some(p->fetch);
            _tile_loadd(4, a, 64);
            _tile_loadd(5, p->rows[0] + at, 64);
            _tile_dpbf16ps(0, 4, 5);
            if (n > 1) {
                _tile_loadd(6, p->rows[1] + at, 64);
                _tile_dpbf16ps(1, 4, 6);
            }
            if (n > 2) {
                _tile_loadd(7, p->rows[2] + at, 64);
                _tile_dpbf16ps(2, 4, 7);
            }
            if (n > 3) {
                _tile_loadd(5, p->rows[3] + at, 64);
                _tile_dpbf16ps(3, 4, 5);
            }
        }
    }
    FOR_TAPS(STORE)
    hd_tiles_settle();
}

static void multiply_taps(const struct product *p, int n)
{
    switch (n) {
    case 1:
        multiply(p, 1);
        break;
    case 2:
        multiply(p, 2);
        break;
    case 3:
        multiply(p, 3);
        break;
    default:
        multiply(p, 4);
    }
}

/* Returns how many places of the kernel are computed at a time. */
static int taps_of(const struct tiling *j)
{
    const int64_t places = j->g.side * j->g.side;
    return places % TAPS == 0 ? TAPS : places % 3 == 0 ? 3 : places < TAPS ? (int)places : TAPS;
}

/* Computes the gradient of the weights that touch the pixels of `s`, for input channels `in` and
 * all outputs. */
static void weights_of(const struct source *s, int64_t pairs, const hd_bf16 *columns,
                       const hd_bf16 *rows, int64_t in, bool start, struct hd_fetch *fetch,
                       float *dweights)
{
    const struct tiling *j = s->tiling;
    const int64_t side = j->g.side, area = j->f.kernel * j->f.kernel, places = side * side;
    struct product p = {.tiling = j, .pairs = pairs, .start = start, .fetch = fetch};
    for (int64_t o = 0; o < j->g.out_blocks; o++)
        for (int64_t k = 0; k < places; k += taps_of(j)) {
            const int n = (int)(places - k < taps_of(j) ? places - k : taps_of(j));
            for (int i = 0; i < n; i++) {
                const int64_t y = (k + i) / side, x = (k + i) % side;
                const int64_t ky = y * j->f.stride + s->first_y, kx = x * j->f.stride + s->first_x;
                p.rows[i] = rows + (y * j->g.width + x) * ROW;
                p.dw[i] =
                    dweights + ((o * j->g.in_blocks + in) * area + ky * j->f.kernel + kx) * BLOCK;
            }
            p.columns = columns + o * pairs * j->tiles * TILE_ELEMENTS;
            multiply_taps(&p, n);
        }
}

/* Rearranges one block of outputs and a group of inputs at a place of the kernel from
 * [output][column] to [input][output]. */
static void finish_block(bool two, int64_t next, float *dw)
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

static void end(const struct hd_conv_fields *f, const struct hd_conv_run *run)
{
    const struct hd_conv_geometry g = hd_conv_geometry_make(f);
    const int64_t area = f->kernel * f->kernel;
    for (int64_t o = 0; o < g.out_blocks; o++)
        for (int64_t in = 0; in < g.in_blocks; in += GROUP)
            for (int64_t k = 0; k < area; k++)
                finish_block(g.in_blocks - in > 1, area * BLOCK,
                             run->dweights + ((o * g.in_blocks + in) * area + k) * BLOCK);
}

/* The arrays in scratch. */
struct workspace {
    int32_t *outputs, *inputs; /* indices of pixels */
    hd_bf16 *columns, *rows;
    int64_t bytes;
};

static struct workspace lay_out(const struct tiling *j, int64_t pairs, char *scratch)
{
    const int64_t outputs = hd_align_up(j->tiles * TILE * (int64_t)sizeof(int32_t));
    const int64_t inputs = hd_align_up(j->rows * (int64_t)sizeof(int32_t));
    const int64_t columns = j->g.out_blocks * pairs * j->tiles * HD_TILE_BYTES;
    const int64_t rows = GROUP * pairs * j->rows * ROW * (int64_t)sizeof(hd_bf16);
    struct workspace workspace = {.outputs = (int32_t *)scratch};
    workspace.inputs = (int32_t *)(scratch + outputs);
    workspace.columns = (hd_bf16 *)(scratch + outputs + inputs);
    workspace.rows = (hd_bf16 *)(scratch + outputs + inputs + columns);
    workspace.bytes = outputs + inputs + columns + rows;
    return workspace;
}

/* Returns the number of pairs of images; the last pair may be half empty. */
static int64_t pairs_of(int64_t images)
{
    return (images + PAIR - 1) / PAIR;
}

static int64_t get_scratch_bytes(const struct hd_conv_fields *f, int64_t max_batch)
{
    static char origin[64] __attribute__((aligned(64)));
    const struct tiling j = tiling_of(f);
    return lay_out(&j, pairs_of(max_batch) < j.pairs ? pairs_of(max_batch) : j.pairs, origin).bytes;
}

/* Returns the number of multiplication steps for a pair of images. */
static int64_t steps_of(const struct tiling *j)
{
    const int64_t places = j->g.side * j->g.side, taps = taps_of(j);
    const int64_t runs = j->g.in_blocks * j->g.out_blocks * ((places + taps - 1) / taps);
    return j->f.stride * j->f.stride * runs * j->tiles;
}

static void transpose_all(const struct tiling *j, int64_t images, const hd_bf16 *dy,
                          const struct workspace *workspace)
{
    const int64_t next = pairs_of(images) * j->tiles * TILE_ELEMENTS;
    for (int64_t n = 0; n < pairs_of(images); n++)
        for (int64_t b = 0; b < j->g.out_blocks; b += GROUP) {
            const struct images pair = images_at(dy + b * TILE, n, images, j->out_image);
            transpose(j, &pair, workspace->outputs, j->g.out_blocks - b > 1,
                      workspace->columns + b * next + n * j->tiles * TILE_ELEMENTS, next);
        }
}

/* Adds the gradient of images that are processed together. */
static void add_images(const struct tiling *j, const struct hd_conv_run *run, int64_t images,
                       const hd_bf16 *x, const hd_bf16 *dy, bool start, struct hd_fetch *fetch,
                       const struct workspace *workspace)
{
    const int64_t stride = j->f.stride, size = j->rows * ROW, next = pairs_of(images) * size;
    transpose_all(j, images, dy, workspace);
    add_pixels(images * j->g.out_height * j->g.out_width, j->f.out_channels, dy, start, run->dbias);
    for (int64_t i = 0; i < stride * stride; i++) {
        const struct source s = {j, i / stride, i % stride};
        find_inputs(&s, workspace->inputs);
        for (int64_t b = 0; b < j->g.in_blocks; b += GROUP) {
            for (int64_t n = 0; n < pairs_of(images); n++) {
                const struct images pair = images_at(x + b * TILE, n, images, j->in_image);
                put_in_order(j, &pair, workspace->inputs, j->g.in_blocks - b > 1,
                             workspace->rows + n * size, next);
            }
            for (int64_t in = b; in < b + GROUP && in < j->g.in_blocks; in++)
                weights_of(&s, pairs_of(images), workspace->columns,
                           workspace->rows + (in - b) * next, in, start, fetch, run->dweights);
        }
    }
}

static void backward_weights(const struct hd_conv_fields *f, const struct hd_conv_run *run,
                             int64_t batch, const void *x, const void *dy)
{
    const struct tiling j = tiling_of(f);
    struct hd_fetch fetch = hd_fetch_make(&run->prefetch, pairs_of(batch) * steps_of(&j));
    const int64_t max_batch = PAIR * j.pairs;
    hd_tiles_load(0, 0);
    for (int64_t n = 0; n < batch; n += max_batch) {
        const int64_t images = batch - n < max_batch ? batch - n : max_batch;
        const struct workspace workspace = lay_out(&j, pairs_of(images), run->scratch);
        if (n == 0)
            find_outputs(&j, workspace.outputs);
        add_images(&j, run, images, (const hd_bf16 *)x + n * j.in_image,
                   (const hd_bf16 *)dy + n * j.out_image, !run->begun && n == 0, &fetch,
                   &workspace);
    }
    _tile_release();
}

const struct hd_conv_own hd_conv_amx_weights = {.name = HD_CONV_AMX_NAME,
                                                .get_scratch_bytes = get_scratch_bytes,
                                                .backward_weights = backward_weights,
                                                .end = end};

#else

const struct hd_conv_own hd_conv_amx_weights = {0};

#endif
