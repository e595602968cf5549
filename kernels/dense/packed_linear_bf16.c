/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 passes by products of pairs. A block of the result stays in registers over the summed index:
 * inputs 2 i and 2 i + 1 in a forward pass, outputs or rows likewise in a backward pass. This file
 * is compiled with contraction, which is safe because every element is one chain. */
#include "kernels/common/amx.h"
#include "kernels/common/pairs.h"
#include "kernels/dense/linear.h"
#include "kernels/dense/packed_linear_internal.h"

enum { BLOCK = HD_PACK_BLOCK, IN = HD_PACK_IN, OUT = HD_PACK_OUT, PAIRS = IN / 2 };

/* -- Forward ----------------------------------------------------------------------------------- */

/* Weights from one vector to the next. */
enum { NEXT = (int)HD_REG == HD_VEC ? BLOCK : 2 * HD_REG };

HD_ALWAYS void forward_block(const struct hd_packed_panel *p, int rows, int vectors)
{
    hd_reg sum[HD_REG_ROWS][HD_REG_COLUMNS];
    const hd_bf16 *block = p->w, *x = p->x, *ahead = p->ahead;
    hd_packed_load_sums(p, rows, vectors, sum);
    for (int64_t i0 = 0; i0 < p->depth; i0 += IN, block += p->next, x += IN)
        for (int64_t i = 0; i < PAIRS; i++) {
            if (ahead)
                __builtin_prefetch(ahead + i0 / IN * p->next + i * 2 * OUT, 0, 2);
            HD_PAIRS_ADD(sum, x + 2 * i, p->ldx, block + i * 2 * OUT, NEXT, rows, vectors);
        }
    hd_packed_store_sums(p, rows, vectors, sum);
}

static void run_forward_block(const struct hd_packed_panel *p, int rows, int vectors)
{
    HD_UNROLL(forward_block, p, rows, vectors)
}

static void forward(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                    const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy)
{
    static const struct hd_packed_way way = {sizeof(hd_bf16), 8, run_forward_block};
    hd_packed_run_panels(p, &way, rows, shadow, bias, x, ldx, y, ldy);
}

/* -- Backward, data ---------------------------------------------------------------------------- */

enum {
    INPUTS = HD_REG == 16 ? 8 : 4,
    SIDE = HD_REG == 4 ? 4 : 2, /* vectors of rows here, of outputs below, at a time */
    STRIP = SIDE * HD_REG,      /* rows here, outputs below, that are SIDE vectors */
    CHUNK = 16,                 /* blocks of outputs at a time, so that dy stays in the cache */
    FETCH_AHEAD = 4             /* blocks */
};

/* Transposes dy to strips of rows, each [pair of outputs][STRIP][2]: pairs are moved as floats
 * are. */
static void pair_outputs(int64_t out_pairs, int64_t rows, const hd_bf16 *dy, int64_t lddy,
                         hd_bf16 *strips)
{
    for (int64_t r = 0; r < rows; r += STRIP)
        hd_transpose(hd_min(rows - r, STRIP), out_pairs, (const float *)(dy + r * lddy), lddy / 2,
                     (float *)(strips + r * out_pairs * 2), STRIP);
}

typedef uint16_t words __attribute__((vector_size(2 * IN), aligned(2)));

/* Rearranges blocks of weights, whose pairs are of inputs, to [block][input][output], in which
 * outputs are pairs. */
static void part_inputs(const hd_bf16 *shadow, int64_t out_blocks, hd_bf16 *weights)
{
    const words order = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                         1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    for (int64_t at = 0; at < out_blocks * BLOCK; at += IN) {
        const words pairs = *(const words *)(shadow + at);
        __builtin_prefetch(shadow + at + FETCH_AHEAD * BLOCK, 0, 3);
        *(words *)(weights + at) = HD_SHUFFLE(pairs, pairs, order);
    }
}

/* INPUTS inputs by up to SIDE vectors of rows, summed over up to CHUNK blocks of outputs. */
struct data {
    const hd_bf16 *weights, *dy;
    int64_t blocks;
    bool start;  /* true: the sums begin with 0 */
    float *sums; /* [INPUTS][STRIP] */
};

HD_ALWAYS void data_block(const struct data *p, int vectors)
{
    hd_reg sum[INPUTS][SIDE] = {{{0}}};
    for (int i = 0; i < INPUTS && !p->start; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = hd_reg_load(p->sums + i * STRIP + v * HD_REG);
    const hd_bf16 *weights = p->weights, *dy = p->dy;
    for (int64_t b = 0; b < p->blocks; b++, weights += BLOCK)
        for (int o = 0; o < OUT; o += 2, dy += 2 * STRIP)
            HD_PAIRS_ADD(sum, weights + o, OUT, dy, 2 * HD_REG, INPUTS, vectors);
    for (int i = 0; i < INPUTS; i++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(p->sums + i * STRIP + v * HD_REG, sum[i][v]);
}

/* Computes a strip of dx of one block of inputs: sums[input][row]. */
static void data_strip(int64_t out_blocks, int64_t rows, const hd_bf16 *weights, const hd_bf16 *dy,
                       float *sums)
{
    for (int64_t o = 0; o < out_blocks; o += CHUNK)
        for (int64_t i = 0; i < IN; i += INPUTS) {
            const struct data part = {.weights = weights + o * BLOCK + i * OUT,
                                      .dy = dy + o * OUT * STRIP,
                                      .blocks = hd_min(out_blocks - o, CHUNK),
                                      .start = o == 0,
                                      .sums = sums + i * STRIP};
            if (rows > STRIP / 2)
                data_block(&part, SIDE);
            else
                data_block(&part, SIDE / 2);
        }
}

/* Stores a strip of dx. Prefetches the memory of the next block of inputs, because stores that wait
 * for their cache lines delay loads from similar addresses. */
static void store_strip(const float *sums, int64_t rows, int64_t inputs, const hd_bf16 *mask,
                        hd_bf16 *dx, int64_t lddx)
{
    for (int64_t r0 = 0; r0 < rows; r0 += HD_VEC) {
        hd_vec low[HD_VEC], high[HD_VEC];
        for (int64_t i = 0; i < HD_VEC; i++) {
            low[i] = hd_vec_load(sums + i * STRIP + r0);
            high[i] = hd_vec_load(sums + (HD_VEC + i) * STRIP + r0);
        }
        hd_vec_transpose(low);
        hd_vec_transpose(high);
        for (int64_t r = r0; r < rows && r < r0 + HD_VEC; r++) {
            __builtin_prefetch(dx + r * lddx + IN, 1, 3);
            if (mask)
                __builtin_prefetch(mask + r * lddx + IN, 0, 3);
            hd_bf16 row[IN];
            hd_vec_store_bf16(row, low[r - r0]);
            hd_vec_store_bf16(row + HD_VEC, high[r - r0]);
            hd_packed_store_row(row, inputs, mask ? mask + r * lddx : NULL, dx + r * lddx);
        }
    }
}

static void backward_data(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                          const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                          const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p),
                  out_pairs = (out_blocks + 1) / 2 * OUT;
    float sums[IN * STRIP] __attribute__((aligned(64)));
    hd_bf16 *weights = scratch, *strips = weights + out_blocks * BLOCK;
    pair_outputs(out_pairs, rows, dy, lddy, strips);
    for (int64_t b = first; b < last; b++) {
        part_inputs(shadow + b * out_blocks * BLOCK, out_blocks, weights);
        for (int64_t r = 0; r < rows; r += STRIP) {
            const int64_t n = hd_min(rows - r, STRIP), at = r * lddx + b * IN;
            data_strip(out_blocks, n, weights, strips + r * out_pairs * 2, sums);
            store_strip(sums, n, p->in - b * IN, mask ? mask + at : NULL, dx + at, lddx);
        }
    }
}

/* -- Backward, weights ------------------------------------------------------------------------- */

enum { LARGE = 1 << 18 /* floats of weights that exceed the second-level cache */ };

/* Makes pairs of rows of 32 columns: to[row / 2][32][2]. Prefetches the columns after them. */
static void pair_rows(int64_t rows, const hd_bf16 *from, int64_t ld, hd_bf16 *to)
{
    for (int64_t r = 0; r < rows; r += 2, from += 2 * ld) {
        const hd_bf16 *second = r + 1 < rows ? from + ld : NULL;
        __builtin_prefetch(from + IN, 0, 3);
        __builtin_prefetch(from + ld + IN, 0, 3);
        for (int64_t i = 0; i < IN; i += HD_VEC, to += 2 * HD_VEC)
            hd_pairs_store(to, from + i, second ? second + i : NULL);
    }
}

/* INPUTS inputs by up to SIDE vectors of outputs. */
struct weights {
    int64_t rows;
    const hd_bf16 *x, *dy; /* pairs of rows */
    float *dw;
    bool stream;
};

HD_ALWAYS void weights_block(const struct weights *p, int vectors)
{
    hd_reg sum[INPUTS][SIDE] = {{{0}}};
    const hd_bf16 *x = p->x, *dy = p->dy;
    for (int64_t r = 0; r < p->rows; r += 2, x += 2 * IN, dy += 2 * IN)
        HD_PAIRS_ADD(sum, x, 2, dy, 2 * HD_REG, INPUTS, vectors);
    for (int v = 0; v < vectors; v++)
        for (int i = 0; i < INPUTS; i++) {
            float *to = p->dw + v * HD_REG / OUT * BLOCK + v * HD_REG % OUT + i * OUT;
            if (p->stream)
                hd_reg_stream(to, sum[i][v]);
            else
                hd_reg_store(to, sum[i][v]);
        }
}

static void backward_weights(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                             int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                             int64_t last, float *dw, void *scratch)
{
    enum { AT_ONCE = STRIP / OUT };
    const int64_t out_blocks = hd_packed_count_out_blocks(p), even = (rows + 1) / 2 * 2;
    hd_bf16 *inputs = scratch, *strips = inputs + even * IN;
    for (int64_t o = 0; o < out_blocks; o += IN / OUT)
        pair_rows(rows, dy + o * OUT, lddy, strips + o * OUT * even);
    for (int64_t b = first; b < last; b++) {
        pair_rows(rows, x + b * IN, ldx, inputs);
        for (int64_t o = 0; o < out_blocks; o += AT_ONCE)
            for (int64_t i = 0; i < IN; i += INPUTS) {
                const struct weights part = {
                    .rows = rows,
                    .x = inputs + 2 * i,
                    .dy = strips + o / 2 * 2 * OUT * even + o % 2 * 2 * OUT,
                    .dw = dw + (b * out_blocks + o) * BLOCK + i * OUT,
                    .stream = hd_packed_count_weights(p) >= LARGE,
                };
                if (out_blocks - o >= AT_ONCE)
                    weights_block(&part, SIDE);
                else
                    weights_block(&part, SIDE / 2);
            }
    }
    hd_reg_stream_end();
}

/* -- Choice of implementation ------------------------------------------------------------------ */

const struct hd_packed_bf16 hd_packed_pairs = {forward, backward_data, backward_weights};

static const struct hd_packed_bf16 *best(void)
{
    return hd_amx_is_ready() ? &hd_packed_amx : &hd_packed_pairs;
}

void hd_packed_forward_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                            const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy)
{
    best()->forward(p, rows, shadow, bias, x, ldx, y, ldy);
}

void hd_packed_backward_data_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                                  const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                                  const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch)
{
    best()->backward_data(p, rows, shadow, dy, lddy, first, last, mask, dx, lddx, scratch);
}

void hd_packed_backward_weights_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                                     int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                                     int64_t last, float *dw, void *scratch)
{
    best()->backward_weights(p, rows, dy, lddy, x, ldx, first, last, dw, scratch);
}
