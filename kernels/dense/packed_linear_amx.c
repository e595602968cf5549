/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 passes on matrix registers. Where the summed index must come in pairs that memory does not
 * hold as pairs, even and odd indices of another dimension are computed in separate tiles, so that
 * shifts within words make the pairs. */
#include "kernels/common/amx.h"
#include "kernels/common/vector.h"
#include "kernels/dense/packed_linear_internal.h"

#ifdef HD_AMX

enum { BLOCK = HD_PACK_BLOCK, IN = HD_PACK_IN, OUT = HD_PACK_OUT, TILE = HD_TILE_ROWS };

/* Prefetches n elements of weights, which come from main memory. Addresses beyond the end are
 * harmless. */
HD_ALWAYS void fetch(const hd_bf16 *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += HD_PACK_IN)
        __builtin_prefetch(from + i, 0, 3);
}

/* -- Forward: tiles 0 … 3 are y of two tiles of rows by two of outputs, 4 and 5 x, 6 and 7 weights
 * -
 */

enum {
    BLOCKS_AT_ONCE = 4 /* blocks of inputs at a time, which is the number of streams of weights; y
                          is stored once for them */
};

struct panel {
    const hd_bf16 *shadow;
    int64_t next; /* elements from one block of inputs to the next */
    int64_t blocks;
    const hd_bf16 *x;
    int64_t ldx;
    float *y;
    int64_t ldy;
    bool start; /* true: y holds nothing yet */
};

#define FOR_TILES_OF_Y(call)                                                                       \
    call(0, 0, 0);                                                                                 \
    if (outs == 2)                                                                                 \
        call(1, 0, 1);                                                                             \
    if (rows == 2)                                                                                 \
        call(2, 1, 0);                                                                             \
    if (rows == 2 && outs == 2)                                                                    \
        call(3, 1, 1);
#define ZERO_Y(tile, r, o) _tile_zero(tile)
#define LOAD_Y(tile, r, o) _tile_loadd(tile, p->y + (r)*TILE * p->ldy + (o)*OUT, stride_y)
#define STORE_Y(tile, r, o) _tile_stored(tile, p->y + (r)*TILE * p->ldy + (o)*OUT, stride_y)

HD_ALWAYS void forward_panel(const struct panel *p, int rows, int outs)
{
    const int64_t stride_y = p->ldy * (int64_t)sizeof(float);
    const int64_t stride_x = p->ldx * (int64_t)sizeof(hd_bf16);
    hd_tiles_settle();
    if (p->start) {
        FOR_TILES_OF_Y(ZERO_Y)
    } else {
        FOR_TILES_OF_Y(LOAD_Y)
    }
    for (int64_t b = 0; b < p->blocks; b++) {
        const hd_bf16 *weights = p->shadow + b * p->next, *x = p->x + b * IN;
        fetch(weights + 2 * BLOCK, outs * BLOCK);
        _tile_loadd(4, x, stride_x);
        _tile_loadd(6, weights, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (outs == 2) {
            _tile_loadd(7, weights + BLOCK, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (rows == 2) {
            _tile_loadd(5, x + TILE * p->ldx, stride_x);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (rows == 2 && outs == 2)
            _tile_dpbf16ps(3, 5, 7);
    }
    FOR_TILES_OF_Y(STORE_Y)
    hd_tiles_settle();
}

static void forward_rows(const struct panel *first, int64_t out_blocks, int64_t rows)
{
    struct panel p = *first;
    hd_tiles_load(rows > TILE ? 0x2C : 0x13, (int)(rows > TILE ? rows - TILE : rows));
    for (int64_t b = 0; b < out_blocks; b += 2, p.shadow += 2 * BLOCK, p.y += 2 * OUT)
        if (rows > TILE && out_blocks - b > 1)
            forward_panel(&p, 2, 2);
        else if (rows > TILE)
            forward_panel(&p, 2, 1);
        else if (out_blocks - b > 1)
            forward_panel(&p, 1, 2);
        else
            forward_panel(&p, 1, 1);
}

static void forward(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                    const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy)
{
    const int64_t in_blocks = hd_packed_count_in_blocks(p),
                  out_blocks = hd_packed_count_out_blocks(p);
    for (int64_t b = 0; b < in_blocks; b += BLOCKS_AT_ONCE)
        for (int64_t r = 0; r < rows; r += 2 * TILE) {
            const struct panel panel = {
                .shadow = shadow + b * out_blocks * BLOCK,
                .next = out_blocks * BLOCK,
                .blocks = hd_min(in_blocks - b, BLOCKS_AT_ONCE),
                .x = x + r * ldx + b * IN,
                .ldx = ldx,
                .y = y + r * ldy,
                .ldy = ldy,
                .start = b == 0,
            };
            forward_rows(&panel, out_blocks, hd_min(rows - r, 2 * TILE));
        }
    _tile_release();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out_blocks * OUT; o++)
            y[r * ldy + o] += bias[o];
}

/* Rows may lie pages apart, which makes each visit of a row expensive. So many rows are visited
 * once for several blocks of inputs; few rows stay in the cache anyway. */
static int64_t group_of(int64_t rows)
{
    return rows > 2 * IN ? HD_PACK_GROUP : 1;
}

/* -- Backward data: tiles 0 and 1 are dx of even and odd inputs, 2 and 3 of the next rows, 4 and 5
 dy, 6 and 7 weights of even and odd inputs  */

/* The weights of one block of inputs, by pairs of blocks of outputs: [pair][even, odd][16 pairs of
 * outputs][16 inputs][2]. */
enum { PAIR = 2 * BLOCK, FETCH_AHEAD = 4 /* blocks */ };

/* Rearranges [16 pairs of inputs][16 outputs][2] to eight rows of pairs of outputs, for even and
 * for odd inputs. */
static void pair_outputs(const hd_bf16 *block, hd_bf16 *even, hd_bf16 *odd)
{
    hd_vec row[HD_VEC];
    for (int i = 0; i < HD_VEC; i++)
        row[i] = hd_vec_load((const float *)(block + i * 2 * OUT));
    hd_vec_transpose(row);
    for (int o = 0; o < HD_VEC; o += 2) {
        const __m512i a = (__m512i)row[o], b = (__m512i)row[o + 1];
        _mm512_store_si512(even + o * OUT, hd_pairs_take_first(a, b));
        _mm512_store_si512(odd + o * OUT, hd_pairs_take_second(a, b));
    }
}

static void pair_block(const hd_bf16 *shadow, int64_t out_blocks, hd_bf16 *pairs)
{
    for (int64_t b = 0; b < out_blocks; b++) {
        hd_bf16 *even = pairs + b / 2 * PAIR + b % 2 * (BLOCK / 2);
        fetch(shadow + (b + FETCH_AHEAD) * BLOCK, BLOCK);
        pair_outputs(shadow + b * BLOCK, even, even + BLOCK);
    }
    if (out_blocks % 2 == 1) { /* the second block of outputs is padding */
        hd_bf16 *even = pairs + out_blocks / 2 * PAIR + BLOCK / 2;
        memset(even, 0, BLOCK / 2 * sizeof *even);
        memset(even + BLOCK, 0, BLOCK / 2 * sizeof *even);
    }
}

/* Stores tiles 0 and 1, and if there are two pairs, 2 and 3, one after another. */
HD_ALWAYS void store_tiles(bool two, float *tiles)
{
    _tile_stored(0, tiles, 64);
    _tile_stored(1, tiles + TILE * OUT, 64);
    if (two) {
        _tile_stored(2, tiles + 2 * TILE * OUT, 64);
        _tile_stored(3, tiles + 3 * TILE * OUT, 64);
    }
    hd_tiles_settle();
}

/* Stores rows of dx of one block of inputs. Prefetches the memory `ahead` elements later, because
 * stores that wait for their cache lines delay loads from similar addresses. */
static void store_block_of_rows(const float *tiles, int64_t rows, int64_t inputs,
                                const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, int64_t ahead)
{
    for (int64_t i = 0; i < rows; i++, dx += lddx, mask += mask ? lddx : 0) {
        const float *even = tiles + i / TILE * 2 * TILE * OUT + i % TILE * OUT;
        hd_bf16 row[IN];
        __builtin_prefetch(dx + ahead, 1, 3);
        if (mask)
            __builtin_prefetch(mask + ahead, 0, 3);
        hd_bf16_pair(even, even + TILE * OUT, row);
        hd_packed_store_row(row, inputs, mask, dx);
    }
}

static void data_rows(const hd_bf16 *pairs, int64_t out_pairs, int64_t rows, const hd_bf16 *dy,
                      int64_t lddy, float *tiles)
{
    const int64_t stride = lddy * (int64_t)sizeof(hd_bf16);
    const bool two = rows > TILE;
    hd_tiles_begin();
    for (int64_t b = 0; b < out_pairs; b++, pairs += PAIR, dy += 2 * OUT) {
        _tile_loadd(4, dy, stride);
        _tile_loadd(6, pairs, 64);
        _tile_loadd(7, pairs + BLOCK, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (two) {
            _tile_loadd(5, dy + TILE * lddy, stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    store_tiles(two, tiles);
}

static void backward_data(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                          const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                          const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p), out_pairs = (out_blocks + 1) / 2;
    const int64_t group = group_of(rows);
    hd_bf16 *pairs = scratch;
    float *tiles = (float *)(pairs + group * out_pairs * PAIR);
    for (int64_t r0 = -1, g = first; g < last; g += group) {
        const int64_t end = hd_min(last, g + group);
        for (int64_t b = g; b < end; b++)
            pair_block(shadow + b * out_blocks * BLOCK, out_blocks,
                       pairs + (b - g) * out_pairs * PAIR);
        for (int64_t r = 0; r < rows; r += 2 * TILE) {
            const int64_t n = hd_min(rows - r, 2 * TILE);
            if (n != r0)
                hd_tiles_load(n > TILE ? 0x2C : 0x13, (int)(n > TILE ? n - TILE : n));
            r0 = n;
            for (int64_t b = g; b < end; b++) {
                const int64_t at = r * lddx + b * IN;
                const int64_t ahead = r + n < rows ? n * lddx : group * IN - r * lddx;
                data_rows(pairs + (b - g) * out_pairs * PAIR, out_pairs, n, dy + r * lddy, lddy,
                          tiles);
                store_block_of_rows(tiles, n, p->in - b * IN, mask ? mask + at : NULL, dx + at,
                                    lddx, ahead);
            }
        }
    }
    _tile_release();
}

/* -- Backward weights: tiles 0 and 1 are dw of even and odd inputs, 2 and 3 of the next outputs, 4
 and 5 x of even and odd inputs, 6 and 7 dy. Rows j and j + 16 of 32 are summed as a pair  */

static __m512i row_or_zero(const hd_bf16 *x, int64_t ldx, int64_t row, int64_t rows)
{
    return row < rows ? _mm512_loadu_si512(x + row * ldx) : _mm512_setzero_si512();
}

/* Rearranges dy of 32 rows from `first` on to [block of outputs][16 pairs of rows][16
 * outputs][2]. */
static void pair_rows(const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t rows,
                      int64_t out_blocks, hd_bf16 *pairs)
{
    for (int64_t b = 0; b < out_blocks; b += 2)
        for (int64_t j = 0; j < TILE; j++) {
            const __m512i low = row_or_zero(dy + b * OUT, lddy, first + j, rows);
            const __m512i high = row_or_zero(dy + b * OUT, lddy, first + TILE + j, rows);
            /* Words o of both rows become words 2 o and 2 o + 1, for 16 outputs each. */
            hd_bf16 *to = pairs + b * BLOCK + j * 2 * OUT;
            __m256i l = _mm512_castsi512_si256(low), h = _mm512_castsi512_si256(high);
            _mm512_store_si512(to,
                               _mm512_or_si512(_mm512_cvtepu16_epi32(l),
                                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
            if (b + 1 == out_blocks)
                continue;
            l = _mm512_extracti64x4_epi64(low, 1), h = _mm512_extracti64x4_epi64(high, 1);
            _mm512_store_si512(to + BLOCK,
                               _mm512_or_si512(_mm512_cvtepu16_epi32(l),
                                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
        }
}

/* Rearranges x of 32 rows and one block of inputs to [even, odd][16 inputs][16 pairs of
 * rows][2]. */
static void columns_of(const hd_bf16 *x, int64_t ldx, int64_t first, int64_t rows, hd_bf16 *columns)
{
    hd_vec low[HD_VEC], high[HD_VEC];
    for (int64_t j = 0; j < TILE; j++) {
        low[j] = (hd_vec)row_or_zero(x, ldx, first + j, rows);
        high[j] = (hd_vec)row_or_zero(x, ldx, first + TILE + j, rows);
    }
    hd_vec_transpose(low);
    hd_vec_transpose(high);
    for (int i = 0; i < TILE; i++) {
        const __m512i a = (__m512i)low[i], b = (__m512i)high[i];
        _mm512_store_si512(columns + i * IN, hd_pairs_take_first(a, b));
        _mm512_store_si512(columns + BLOCK + i * IN, hd_pairs_take_second(a, b));
    }
}

/* Stores the tiles of even and odd rows into one block. */
static void store_block(const float *even, float *dw)
{
    const float *odd = even + TILE * OUT;
    for (int i = 0; i < TILE; i++) {
        hd_reg_stream(dw + 2 * i * OUT, hd_reg_load(even + i * OUT));
        hd_reg_stream(dw + (2 * i + 1) * OUT, hd_reg_load(odd + i * OUT));
    }
}

static void weights_blocks(const hd_bf16 *columns, const hd_bf16 *pairs, int64_t row_blocks,
                           int64_t next, bool two, float *tiles)
{
    hd_tiles_begin();
    for (int64_t c = 0; c < row_blocks; c++, columns += PAIR, pairs += next) {
        _tile_loadd(4, columns, 64);
        _tile_loadd(5, columns + BLOCK, 64);
        _tile_loadd(6, pairs, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        if (two) {
            _tile_loadd(7, pairs + BLOCK, 64);
            _tile_dpbf16ps(2, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    store_tiles(two, tiles);
}

static void backward_weights(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                             int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                             int64_t last, float *dw, void *scratch)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p), row_blocks = (rows + IN - 1) / IN;
    const int64_t next = (out_blocks + 1) / 2 * 2 * BLOCK;
    const int64_t group = group_of(rows);
    hd_bf16 *pairs = scratch, *columns = pairs + row_blocks * next;
    float *tiles = (float *)(columns + group * row_blocks * PAIR);
    for (int64_t c = 0; c < row_blocks; c++)
        pair_rows(dy, lddy, c * IN, rows, out_blocks, pairs + c * next);
    hd_tiles_load(0, 0);
    for (int64_t g = first; g < last; g += group) {
        const int64_t end = hd_min(last, g + group);
        for (int64_t c = 0; c < row_blocks; c++)
            for (int64_t b = g; b < end; b++)
                columns_of(x + b * IN, ldx, c * IN, rows,
                           columns + ((b - g) * row_blocks + c) * PAIR);
        for (int64_t b = g; b < end; b++)
            for (int64_t o = 0; o < out_blocks; o += 2) {
                const bool two = out_blocks - o > 1;
                float *to = dw + (b * out_blocks + o) * BLOCK;
                weights_blocks(columns + (b - g) * row_blocks * PAIR, pairs + o * BLOCK, row_blocks,
                               next, two, tiles);
                store_block(tiles, to);
                if (two)
                    store_block(tiles + 2 * TILE * OUT, to + BLOCK);
            }
    }
    _tile_release();
    hd_reg_stream_end();
}

const struct hd_packed_bf16 hd_packed_amx = {forward, backward_data, backward_weights};

#else

const struct hd_packed_bf16 hd_packed_amx = {0};

#endif
