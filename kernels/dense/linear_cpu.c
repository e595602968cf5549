/* SPDX-License-Identifier: Apache-2.0 */
/* One register-blocked product serves forward and both backward passes: rows x vectors of the
 * result are kept in registers over the summed index. This file is compiled with contraction, so
 * that a * b + c is one fused operation if the machine has it. */
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"

#include <stddef.h>
#include <string.h>

enum { ROWS = HD_REG_ROWS, VECTORS = HD_REG_COLUMNS };

/* C[m][n] = sum_k A[m * row + k * col] B[k * ldb + n], for up to ROWS x VECTORS vectors. */
struct product {
    const float *a;
    int64_t row, col;
    const float *b;
    int64_t ldb, depth;
};

HD_ALWAYS void multiply(const struct product *p, int rows, int vectors, hd_reg c[ROWS][VECTORS])
{
    for (int64_t k = 0; k < p->depth; k++) {
        const float *b = p->b + k * p->ldb, *a = p->a + k * p->col;
        hd_reg row[VECTORS];
        for (int v = 0; v < vectors; v++)
            row[v] = hd_reg_load(b + v * HD_REG);
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                c[r][v] += a[r * p->row] * row[v];
    }
}

/* The operations on a finished block. */
struct finish {
    float *c;
    int64_t ldc;
    const float *bias; /* by row, or NULL */
    bool relu, add;
    bool goes_on;   /* the chains go on from what is there */
    const float *x; /* the result is 0 where x is not positive; or NULL */
    int64_t ldx;
    int64_t last; /* floats of the last vector that are stored */
};

struct block {
    struct product product;
    struct finish finish;
};

HD_ALWAYS void store(const struct finish *f, int rows, int vectors, hd_reg c[ROWS][VECTORS])
{
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            hd_reg value = c[r][v];
            float *to = f->c + r * f->ldc + v * HD_REG;
            if (f->bias)
                value += f->bias[r];
            if (f->add)
                value += hd_reg_load(to);
            if (f->relu)
                value = hd_reg_rectify(value, value);
            if (f->x)
                value = hd_reg_rectify(value, hd_reg_load(f->x + r * f->ldx + v * HD_REG));
            if (v == vectors - 1 && f->last < HD_REG)
                memcpy(to, &value, (size_t)f->last * sizeof *to);
            else
                hd_reg_store(to, value);
        }
}

HD_ALWAYS void compute_block(const struct block *b, int rows, int vectors)
{
    hd_reg c[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            c[r][v] = (hd_reg){0};
    for (int r = 0; r < rows && b->finish.goes_on; r++)
        for (int v = 0; v < vectors; v++)
            if (v == vectors - 1 && b->finish.last < HD_REG)
                memcpy(&c[r][v], b->finish.c + r * b->finish.ldc + v * HD_REG,
                       (size_t)b->finish.last * sizeof(float));
            else
                c[r][v] = hd_reg_load(b->finish.c + r * b->finish.ldc + v * HD_REG);
    multiply(&b->product, rows, vectors, c);
    store(&b->finish, rows, vectors, c);
}

static void run_block(const struct block *b, int rows, int vectors)
{
    HD_UNROLL(compute_block, b, rows, vectors)
}

/* Computes all of C[rows][columns]. `columns` may be any number; B is readable up to its next
 * multiple of HD_LANES. */
static void run(const struct product *p, const struct finish *f, int64_t rows, int64_t columns)
{
    for (int64_t n = 0; n < columns; n += VECTORS * HD_REG) {
        const int64_t left = hd_min(columns - n, VECTORS * HD_REG);
        const int vectors = (int)((left + HD_REG - 1) / HD_REG);
        for (int64_t m = 0; m < rows; m += ROWS) {
            struct block b = {*p, *f};
            b.product.a += m * p->row;
            b.product.b += n;
            b.finish.c += m * f->ldc + n;
            b.finish.bias = f->bias ? f->bias + m : NULL;
            b.finish.x = f->x ? f->x + m * f->ldx + n : NULL;
            b.finish.last = left - (vectors - 1) * HD_REG;
            run_block(&b, (int)hd_min(rows - m, ROWS), vectors);
        }
    }
}

void hd_linear_forward(int64_t out, int64_t in, int64_t columns, const float *w, const float *bias,
                       bool relu, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    const struct product p = {.a = w, .row = in, .col = 1, .b = x, .ldb = ldx, .depth = in};
    const struct finish f = {.c = y, .ldc = ldy, .bias = bias, .relu = relu};
    run(&p, &f, out, columns);
}

void hd_linear_backward_data(int64_t out, int64_t in, int64_t columns, const float *w,
                             const float *dy, int64_t ldy, bool add, const float *x, int64_t ldx,
                             float *dx, int64_t lddx)
{
    const struct product p = {.a = w, .row = 1, .col = in, .b = dy, .ldb = ldy, .depth = out};
    const struct finish f = {.c = dx, .ldc = lddx, .add = add, .x = x, .ldx = ldx};
    run(&p, &f, in, columns);
}

void hd_linear_multiply(const struct hd_product *q)
{
    const struct product p = {.a = q->a,
                              .row = q->a_row,
                              .col = q->a_column,
                              .b = q->b,
                              .ldb = q->ldb,
                              .depth = q->depth};
    const struct finish f = {.c = q->c, .ldc = q->ldc, .add = q->add};
    run(&p, &f, q->rows, q->columns);
}

/* Adds row[n] in one fixed order: HD_VEC partial sums, then pairs of halves. */
static float sum_row(const float *row, int64_t n)
{
    float lanes[HD_VEC];
    hd_vec sum = {0};
    int64_t b = 0;
    for (; b + HD_VEC <= n; b += HD_VEC)
        sum += hd_vec_load(row + b);
    hd_vec_store(lanes, sum);
    for (; b < n; b++)
        lanes[b % HD_VEC] += row[b];
    return hd_vec_add_lanes(lanes);
}

enum { PART = 256 /* columns, whose transposed inputs the caches hold */ };

int64_t hd_linear_count_scratch(int64_t in, int64_t batch)
{
    return hd_linear_get_ld(in) * hd_min(batch, PART);
}

void hd_linear_backward_weights(int64_t out, int64_t in, int64_t batch, const float *dy,
                                int64_t ldy, const float *x, int64_t ldx, float *dw, float *dbias,
                                float *scratch)
{
    const int64_t ld = hd_linear_get_ld(in);
    for (int64_t b = 0; b == 0 || b < batch; b += PART) {
        const int64_t n = hd_min(batch - b, PART);
        const struct product p = {
            .a = dy + b, .row = ldy, .col = 1, .b = scratch, .ldb = ld, .depth = n};
        const struct finish f = {.c = dw, .ldc = in, .goes_on = b > 0};
        hd_transpose(in, n, x + b, ldx, scratch, ld);
        run(&p, &f, out, in);
    }
    for (int64_t o = 0; o < out; o++)
        dbias[o] = sum_row(dy + o * ldy, batch);
}

/* Transposes rows [i0, i1) of columns [j0, j1), 16 x 16 of them as vectors. */
static void transpose_block(int64_t i0, int64_t i1, int64_t j0, int64_t j1, const float *from,
                            int64_t ld_from, float *to, int64_t ld_to)
{
    if (i1 - i0 == HD_VEC && j1 - j0 == HD_VEC) {
        hd_vec row[HD_VEC];
        for (int i = 0; i < HD_VEC; i++)
            row[i] = hd_vec_load(from + (i0 + i) * ld_from + j0);
        hd_vec_transpose(row);
        for (int j = 0; j < HD_VEC; j++)
            hd_vec_store(to + (j0 + j) * ld_to + i0, row[j]);
        return;
    }
    for (int64_t j = j0; j < j1; j++)
        for (int64_t i = i0; i < i1; i++)
            to[j * ld_to + i] = from[i * ld_from + j];
}

void hd_transpose(int64_t rows, int64_t columns, const float *from, int64_t ld_from, float *to,
                  int64_t ld_to)
{
    const int64_t padded = hd_min(hd_linear_round_up(rows), ld_to);
    for (int64_t j = 0; j < columns; j += HD_VEC)
        for (int64_t i = 0; i < rows; i += HD_VEC)
            transpose_block(i, hd_min(i + HD_VEC, rows), j, hd_min(j + HD_VEC, columns), from,
                            ld_from, to, ld_to);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = rows; i < padded; i++)
            to[j * ld_to + i] = 0;
}
