/* SPDX-License-Identifier: Apache-2.0 */
/* Products of floats, by kernels/dense/linear.h; and of floats rounded to bf16, by
 * kernels/dense/packed_linear.h, which takes blocks of weights and rows without anything between
 * them. */
#include "kernels/common/shadow.h"
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"
#include "kernels/dense/packed_linear.h"
#include "kernels/net/layers/recurrent/recurrent_internal.h"

#include <string.h>

enum { IN = HD_PACK_IN, OUT = HD_PACK_OUT, BLOCK = HD_PACK_BLOCK };

/* Returns the bf16 elements of a row of n. */
static int64_t get_rounded_ld(int64_t n)
{
    return (n + IN - 1) / IN * IN;
}

/* Returns the floats that hold `elements` elements of bf16, a multiple of HD_LANES. */
static int64_t count_floats(int64_t elements)
{
    return hd_linear_round_up((elements + 1) / 2);
}

/* Rounds n floats of each row, `row` floats apart, and writes zeros behind them. */
static void round_rows(int64_t rows, int64_t n, const float *x, int64_t row, hd_bf16 *to)
{
    const int64_t ld = get_rounded_ld(n);
    for (int64_t r = 0; r < rows; r++, x += row, to += ld) {
        hd_bf16_round(x, n, to);
        memset(to + n, 0, (size_t)(ld - n) * sizeof *to);
    }
}

/* -- Factors ----------------------------------------------------------------------------------- */

int64_t hd_factor_count(bool bf16, int64_t in, int64_t out)
{
    const struct hd_packed p = {in, out};
    return bf16 ? count_floats(hd_packed_count_weights(&p)) : in * hd_linear_get_ld(out);
}

/* A block of inputs from i on and outputs from o on. */
struct block {
    int64_t i, o, inputs, outputs;
};

/* Makes pairs of inputs of weight[in][out]. */
static void pair_rows(const struct hd_factor *f, const float *weight, struct block b,
                      hd_bf16 *pairs)
{
    float rows[BLOCK] = {0};
    for (int64_t i = 0; i < b.inputs; i++)
        memcpy(rows + i * OUT, weight + (b.i + i) * f->out + b.o, (size_t)b.outputs * sizeof *rows);
    hd_shadow_refresh(NULL, rows, 0, BLOCK, pairs);
}

/* Makes them of weight[out][in], whose rows hold pairs, which are moved as floats are. */
static void pair_columns(const struct hd_factor *f, const float *weight, struct block b,
                         hd_bf16 *pairs)
{
    hd_bf16 rows[BLOCK] __attribute__((aligned(4))) = {0};
    for (int64_t o = 0; o < b.outputs; o++)
        hd_bf16_round(weight + (b.o + o) * f->in + b.i, b.inputs, rows + o * IN);
    hd_transpose(OUT, OUT, (const float *)rows, OUT, (float *)pairs, OUT);
}

static void make_shadow(const struct hd_factor *f, const float *weight, bool transposed,
                        hd_bf16 *shadow)
{
    for (int64_t i = 0; i < f->in; i += IN)
        for (int64_t o = 0; o < f->out; o += OUT, shadow += BLOCK) {
            const struct block block = {i, o, hd_min(f->in - i, IN), hd_min(f->out - o, OUT)};
            if (transposed)
                pair_columns(f, weight, block, shadow);
            else
                pair_rows(f, weight, block, shadow);
        }
}

/* Rows whose vectors can be read need not be copied. */
static void make_floats(struct hd_factor *f, const float *weight, bool transposed, float *memory)
{
    f->ld = transposed ? hd_linear_get_ld(f->out) : hd_linear_round_up(f->out);
    f->weight = transposed || f->out < f->ld ? memory : weight;
    if (transposed)
        hd_transpose(f->out, f->in, weight, f->in, memory, f->ld);
    for (int64_t i = 0; i < f->in && f->weight == memory && !transposed; i++)
        memcpy(memory + i * f->ld, weight + i * f->out, (size_t)f->out * sizeof *memory);
}

struct hd_factor hd_factor_make(bool bf16, int64_t in, int64_t out, const float *weight,
                                bool transposed, float *memory)
{
    struct hd_factor f = {.bf16 = bf16, .in = in, .out = out, .weight = memory};
    if (bf16)
        make_shadow(&f, weight, transposed, (hd_bf16 *)memory);
    else
        make_floats(&f, weight, transposed, memory);
    return f;
}

/* -- Products ---------------------------------------------------------------------------------- */

int64_t hd_factor_count_scratch(bool bf16, int64_t rows, int64_t in, int64_t out)
{
    const int64_t outputs = hd_linear_round_up(out);
    return bf16 ? count_floats(rows * get_rounded_ld(in)) + (rows + 1) * outputs : 0;
}

static void copy_rows(int64_t rows, int64_t n, const float *from, int64_t ld, bool add, float *to,
                      int64_t to_row)
{
    for (int64_t r = 0; r < rows; r++, from += ld, to += to_row)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] + (add ? to[i] : 0);
}

/* Products write whole vectors, for which a row may have no room. */
static void multiply_rounded(const struct hd_factor *f, const struct hd_rows *x, bool add, float *y,
                             int64_t y_row, float *scratch)
{
    const struct hd_packed p = {f->in, f->out};
    const int64_t outputs = hd_packed_count_outputs(&p), ld = get_rounded_ld(f->in);
    const bool direct = !add && y_row >= outputs;
    hd_bf16 *rounded = (hd_bf16 *)scratch;
    float *zeros = scratch + count_floats(x->rows * ld), *sums = zeros + outputs;
    memset(zeros, 0, (size_t)outputs * sizeof *zeros);
    round_rows(x->rows, f->in, x->at, x->row, rounded);
    hd_packed_forward_bf16(&p, x->rows, (const hd_bf16 *)f->weight, zeros, rounded, ld,
                           direct ? y : sums, direct ? y_row : outputs);
    if (!direct)
        copy_rows(x->rows, f->out, sums, outputs, add, y, y_row);
}

void hd_factor_multiply(const struct hd_factor *f, const struct hd_rows *x, bool add, float *y,
                        int64_t y_row, float *scratch)
{
    if (f->bf16)
        multiply_rounded(f, x, add, y, y_row, scratch);
    else
        hd_linear_multiply(&(struct hd_product){.rows = x->rows,
                                                .columns = f->out,
                                                .depth = f->in,
                                                .a = x->at,
                                                .a_row = x->row,
                                                .a_column = 1,
                                                .b = f->weight,
                                                .ldb = f->ld,
                                                .c = y,
                                                .ldc = y_row,
                                                .add = add});
}

/* -- Gradients of weights ---------------------------------------------------------------------- */

int64_t hd_rows_count_scratch(bool bf16, int64_t rows, int64_t out, int64_t in)
{
    const struct hd_packed p = {in, out};
    if (!bf16)
        return 0;
    return count_floats(rows * get_rounded_ld(in)) + count_floats(rows * get_rounded_ld(out)) +
           hd_packed_count_weights(&p) +
           hd_linear_round_up(hd_packed_get_scratch_bytes(&p, rows) / (int64_t)sizeof(float));
}

static void unpack_block(const float *block, int64_t inputs, int64_t outputs, float *dweight,
                         int64_t ld)
{
    float rows[BLOCK];
    hd_transpose(inputs, outputs, block, OUT, rows, IN);
    for (int64_t o = 0; o < outputs; o++)
        memcpy(dweight + o * ld, rows + o * IN, (size_t)inputs * sizeof *rows);
}

static void multiply_rounded_rows(int64_t out, const struct hd_rows *dy, int64_t in,
                                  const struct hd_rows *x, float *dweight, float *scratch)
{
    const struct hd_packed p = {in, out};
    const int64_t ldx = get_rounded_ld(in), ldy = get_rounded_ld(out);
    hd_bf16 *rounded_x = (hd_bf16 *)scratch;
    float *of_y = scratch + count_floats(x->rows * ldx);
    float *packed = of_y + count_floats(x->rows * ldy);
    round_rows(x->rows, in, x->at, x->row, rounded_x);
    round_rows(x->rows, out, dy->at, dy->row, (hd_bf16 *)of_y);
    hd_packed_backward_weights_bf16(&p, x->rows, (hd_bf16 *)of_y, ldy, rounded_x, ldx, 0,
                                    hd_packed_count_in_blocks(&p), packed,
                                    packed + hd_packed_count_weights(&p));
    for (int64_t i = 0; i < in; i += IN)
        for (int64_t o = 0; o < out; o += OUT, packed += BLOCK)
            unpack_block(packed, hd_min(in - i, IN), hd_min(out - o, OUT), dweight + o * in + i,
                         in);
}

void hd_rows_multiply(bool bf16, int64_t out, const struct hd_rows *dy, int64_t in,
                      const struct hd_rows *x, bool add, float *dweight, float *scratch)
{
    if (bf16)
        multiply_rounded_rows(out, dy, in, x, dweight, scratch);
    else
        hd_linear_multiply(&(struct hd_product){.rows = out,
                                                .columns = in,
                                                .depth = x->rows,
                                                .a = dy->at,
                                                .a_row = 1,
                                                .a_column = dy->row,
                                                .b = x->at,
                                                .ldb = x->row,
                                                .c = dweight,
                                                .ldc = in,
                                                .add = add});
}
