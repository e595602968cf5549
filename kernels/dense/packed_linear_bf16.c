/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16 numbers in plain C, and the choice of the implementation.
 * A product of two bf16 numbers is exact in a float, so contraction, with which this file is
 * compiled, changes no bit but of results that underflow. */
#include "kernels/common/amx.h"
#include "kernels/common/vector.h"
#include "kernels/dense/packed_linear_internal.h"

enum {
    BLOCK = HD_PACK_BLOCK,
    IN = HD_PACK_IN,
    OUT = HD_PACK_OUT,
    ROWS = HD_REG_ROWS,
    VECTORS = HD_REG_COLUMNS,
    BLOCKS = VECTORS * HD_REG / OUT /* of outputs that the registers hold */
};

typedef uint32_t reg_bits __attribute__((vector_size(4 * HD_REG), aligned(2)));
typedef uint16_t reg_bf16 __attribute__((vector_size(2 * HD_REG), aligned(2)));

/* Loads a register of pairs, in which the shadow keeps the weights of inputs i and i + 1. */
HD_ALWAYS void load_pairs(const hd_bf16 *from, hd_reg *first, hd_reg *second)
{
    const reg_bits pairs = *(const reg_bits *)from;
    *first = (hd_reg)(pairs << 16);
    *second = (hd_reg)(pairs & 0xffff0000u);
}

HD_ALWAYS hd_reg load_bf16(const hd_bf16 *from)
{
    return (hd_reg)(__builtin_convertvector(*(const reg_bf16 *)from, reg_bits) << 16);
}

/* -- Forward ----------------------------------------------------------------------------------- */

/* Up to ROWS rows by up to BLOCKS blocks of outputs. */
struct forward {
    const hd_bf16 *shadow;
    int64_t next; /* weights from one block of inputs to the next */
    int64_t in;
    const hd_bf16 *x;
    int64_t ldx;
    const float *bias;
    float *y;
    int64_t ldy;
};

HD_ALWAYS void forward_block(const struct forward *p, int rows, int vectors)
{
    hd_reg sum[ROWS][VECTORS] = {{{0}}};
    const hd_bf16 *block = p->shadow;
    for (int64_t i0 = 0; i0 < p->in; i0 += IN, block += p->next)
        for (int64_t i = 0; i < hd_min(p->in - i0, IN); i += 2) {
            hd_reg first[VECTORS], second[VECTORS];
            for (int v = 0; v < vectors; v++)
                load_pairs(block + v * HD_REG / OUT * BLOCK + v * HD_REG % OUT * 2 + i * OUT,
                           &first[v], &second[v]);
            for (int r = 0; r < rows; r++) {
                const hd_bf16 *x = p->x + r * p->ldx + i0 + i;
                const float a = hd_bf16_to_float(x[0]), b = hd_bf16_to_float(x[1]);
                for (int v = 0; v < vectors; v++) {
                    sum[r][v] += a * first[v];
                    sum[r][v] += b * second[v];
                }
            }
        }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(p->y + r * p->ldy + v * HD_REG,
                         sum[r][v] + hd_reg_load(p->bias + v * HD_REG));
}

static void run_forward_block(const struct forward *p, int rows, int vectors)
{
    HD_UNROLL(forward_block, p, rows, vectors)
}

static void forward(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                    const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy)
{
    const int64_t blocks = hd_packed_count_out_blocks(p);
    for (int64_t b = 0; b < blocks; b += BLOCKS)
        for (int64_t r = 0; r < rows; r += ROWS) {
            const struct forward part = {.shadow = shadow + b * BLOCK,
                                         .next = blocks * BLOCK,
                                         .in = p->in,
                                         .x = x + r * ldx,
                                         .ldx = ldx,
                                         .bias = bias + b * OUT,
                                         .y = y + r * ldy + b * OUT,
                                         .ldy = ldy};
            run_forward_block(&part, (int)hd_min(rows - r, ROWS),
                              (int)hd_min(blocks - b, BLOCKS) * OUT / HD_REG);
        }
}

/* -- Backward, data ---------------------------------------------------------------------------- */

/* Up to ROWS inputs of a block by up to VECTORS vectors of rows. */
struct data {
    const struct hd_packed *p;
    const hd_bf16 *weights; /* of the block of inputs */
    int64_t i;              /* first input in the block */
    const float *dy;        /* transposed: [out][ld] */
    int64_t ld;
    float *sums; /* [IN][VECTORS * HD_REG]: of the block's inputs */
};

HD_ALWAYS void data_block(const struct data *p, int inputs, int vectors)
{
    hd_reg sum[ROWS][VECTORS] = {{{0}}};
    for (int64_t o = 0; o < p->p->out; o++) {
        const hd_bf16 *w = p->weights + o / OUT * BLOCK + o % OUT * 2;
        hd_reg dy[VECTORS];
        for (int v = 0; v < vectors; v++)
            dy[v] = hd_reg_load(p->dy + o * p->ld + v * HD_REG);
        for (int k = 0; k < inputs; k++) {
            const int64_t i = p->i + k;
            const float weight = hd_bf16_to_float(w[i / 2 * OUT * 2 + i % 2]);
            for (int v = 0; v < vectors; v++)
                sum[k][v] += weight * dy[v];
        }
    }
    for (int k = 0; k < inputs; k++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(p->sums + ((p->i + k) * VECTORS + v) * HD_REG, sum[k][v]);
}

static void run_data_block(const struct data *p, int inputs, int vectors)
{
    HD_UNROLL(data_block, p, inputs, vectors)
}

/* Writes n inputs of `rows` rows from their sums. */
static void store_data(const float *sums, int64_t n, int64_t rows, const hd_bf16 *mask, hd_bf16 *dx,
                       int64_t lddx)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            const bool passes = !mask || (int16_t)mask[r * lddx + i] > 0;
            dx[r * lddx + i] = passes ? hd_bf16_from_float(sums[i * VECTORS * HD_REG + r]) : 0;
        }
}

/* Transposes dy into floats, with zeros for rows up to `ld`. */
static void transpose(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy, int64_t lddy,
                      float *to, int64_t ld)
{
    for (int64_t o = 0; o < p->out; o++)
        for (int64_t r = 0; r < ld; r++)
            to[o * ld + r] = r < rows ? hd_bf16_to_float(dy[r * lddy + o]) : 0;
}

static void backward_data(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                          const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                          const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch)
{
    enum { LANES = VECTORS * HD_REG };
    const int64_t ld = (rows + HD_VEC - 1) / HD_VEC * HD_VEC;
    float sums[IN * LANES];
    transpose(p, rows, dy, lddy, scratch, ld);
    for (int64_t b = first; b < last; b++)
        for (int64_t r = 0; r < rows; r += LANES) {
            const int64_t i0 = b * IN, n = hd_min(p->in - i0, IN), at = r * lddx + i0;
            struct data part = {.p = p,
                                .weights = shadow + b * hd_packed_count_out_blocks(p) * BLOCK,
                                .dy = (const float *)scratch + r,
                                .ld = ld,
                                .sums = sums};
            for (; part.i < n; part.i += ROWS)
                run_data_block(&part, (int)hd_min(n - part.i, ROWS),
                               (int)hd_min((ld - r) / HD_REG, VECTORS));
            store_data(sums, n, hd_min(rows - r, LANES), mask ? mask + at : NULL, dx + at, lddx);
        }
}

/* -- Backward, weights ------------------------------------------------------------------------- */

/* Up to ROWS inputs by up to BLOCKS blocks of outputs. */
struct weights {
    int64_t rows;
    const hd_bf16 *x, *dy; /* of these inputs and outputs */
    int64_t ldx, lddy;
    float *dw;
};

HD_ALWAYS void weights_block(const struct weights *p, int inputs, int vectors)
{
    hd_reg sum[ROWS][VECTORS] = {{{0}}};
    for (int64_t r = 0; r < p->rows; r++) {
        hd_reg dy[VECTORS];
        for (int v = 0; v < vectors; v++)
            dy[v] = load_bf16(p->dy + r * p->lddy + v * HD_REG);
        for (int k = 0; k < inputs; k++) {
            const float x = hd_bf16_to_float(p->x[r * p->ldx + k]);
            for (int v = 0; v < vectors; v++)
                sum[k][v] += x * dy[v];
        }
    }
    for (int k = 0; k < inputs; k++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(p->dw + v * HD_REG / OUT * BLOCK + v * HD_REG % OUT + k * OUT, sum[k][v]);
}

static void run_weights_block(const struct weights *p, int inputs, int vectors)
{
    HD_UNROLL(weights_block, p, inputs, vectors)
}

static void backward_weights(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                             int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                             int64_t last, float *dw, void *scratch)
{
    const int64_t blocks = hd_packed_count_out_blocks(p);
    (void)scratch;
    for (int64_t in = first; in < last; in++) {
        const int64_t n = hd_min(p->in - in * IN, IN);
        float *block = dw + in * blocks * BLOCK;
        if (n < IN)
            memset(block, 0, (size_t)(blocks * BLOCK) * sizeof *dw);
        for (int64_t b = 0; b < blocks; b += BLOCKS)
            for (int64_t i = 0; i < n; i += ROWS) {
                const struct weights part = {.rows = rows,
                                             .x = x + in * IN + i,
                                             .dy = dy + b * OUT,
                                             .ldx = ldx,
                                             .lddy = lddy,
                                             .dw = block + b * BLOCK + i * OUT};
                run_weights_block(&part, (int)hd_min(n - i, ROWS),
                                  (int)hd_min(blocks - b, BLOCKS) * OUT / HD_REG);
            }
    }
}

const struct hd_packed_bf16 hd_packed_portable = {forward, backward_data, backward_weights};

/* -- Choice of implementation ------------------------------------------------------------------ */

static const struct hd_packed_bf16 *best(void)
{
    const struct hd_packed_bf16 *vectors =
        hd_packed_pairs.forward ? &hd_packed_pairs : &hd_packed_portable;
    return hd_amx_is_ready() ? &hd_packed_amx : vectors;
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
