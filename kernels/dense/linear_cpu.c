/* SPDX-License-Identifier: Apache-2.0 */
/* One register-blocked product serves forward and both backward passes: rows x vectors of the
 * result are kept in registers over the summed index. This file is compiled with contraction, so
 * that a * b + c is one fused operation if the machine has it. */
#include "kernels/dense/linear.h"

#include <stddef.h>
#include <string.h>

typedef float vec __attribute__((vector_size(4 * HD_LANES), aligned(4)));
typedef int32_t mask __attribute__((vector_size(4 * HD_LANES), aligned(4)));

enum { ROWS = 6, VECTORS = 4 };

/* C[m][n] = sum_k A[m * row + k * col] B[k * ldb + n], for up to ROWS x VECTORS vectors. */
struct product {
    const float *a;
    int64_t row, col;
    const float *b;
    int64_t ldb, depth;
};

static inline __attribute__((always_inline)) void multiply(const struct product *p, int rows,
                                                           int vectors, vec c[ROWS][VECTORS])
{
    for (int64_t k = 0; k < p->depth; k++) {
        const vec *b = (const vec *)(p->b + k * p->ldb);
        const float *a = p->a + k * p->col;
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                c[r][v] += a[r * p->row] * b[v];
    }
}

/* The operations on a finished block. */
struct finish {
    float *c;
    int64_t ldc;
    const float *bias; /* by row, or NULL */
    bool relu, add;
    const float *x; /* the result is 0 where x is not positive; or NULL */
    int64_t ldx;
    int64_t last; /* floats of the last vector that are stored */
};

/* Returns 0 where `positive` is <= 0, else value; so a NaN stays. */
static inline __attribute__((always_inline)) vec rectify(vec value, vec positive)
{
    const vec zero = {0};
    return (vec)((mask)value & ~(positive <= zero));
}

static inline __attribute__((always_inline)) void store(const struct finish *f, int rows,
                                                        int vectors, vec c[ROWS][VECTORS])
{
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            vec value = c[r][v];
            float *to = f->c + r * f->ldc + v * HD_LANES;
            if (f->bias)
                value += f->bias[r];
            if (f->add)
                value += *(const vec *)to;
            if (f->relu)
                value = rectify(value, value);
            if (f->x)
                value = rectify(value, *(const vec *)(f->x + r * f->ldx + v * HD_LANES));
            if (v == vectors - 1 && f->last < HD_LANES)
                memcpy(to, &value, (size_t)f->last * sizeof *to);
            else
                *(vec *)to = value;
        }
}

static inline __attribute__((always_inline)) void
block(const struct product *p, const struct finish *f, int rows, int vectors)
{
    vec c[ROWS][VECTORS] = {{{0}}};
    multiply(p, rows, vectors, c);
    store(f, rows, vectors, c);
}

/* The compiler unrolls each case for its numbers of rows and vectors. */
#define BLOCK(rows, vectors)                                                                       \
    case (rows)*8 + (vectors):                                                                     \
        block(p, f, rows, vectors);                                                                \
        break;
#define BLOCKS(rows) BLOCK(rows, 1) BLOCK(rows, 2) BLOCK(rows, 3) BLOCK(rows, 4)

static void run_block(const struct product *p, const struct finish *f, int rows, int vectors)
{
    switch (rows * 8 + vectors) {
        BLOCKS(1) BLOCKS(2) BLOCKS(3) BLOCKS(4) BLOCKS(5) BLOCKS(6)
    }
}

/* Computes all of C[rows][columns]; with `tail`, columns may be any number and B is readable up to
 * the next multiple of HD_LANES. */
static void run(struct product p, struct finish f, int64_t rows, int64_t columns)
{
    const struct product all = p;
    const struct finish to = f;
    for (int64_t n = 0; n < columns; n += VECTORS * HD_LANES) {
        int64_t left = columns - n;
        int vectors =
            left >= VECTORS * HD_LANES ? VECTORS : (int)((left + HD_LANES - 1) / HD_LANES);
        f.last = left >= vectors * HD_LANES ? HD_LANES : left - (vectors - 1) * HD_LANES;
        for (int64_t m = 0; m < rows; m += ROWS) {
            p.a = all.a + m * all.row;
            p.b = all.b + n;
            f.c = to.c + m * to.ldc + n;
            f.bias = to.bias ? to.bias + m : NULL;
            f.x = to.x ? to.x + m * to.ldx + n : NULL;
            run_block(&p, &f, rows - m < ROWS ? (int)(rows - m) : ROWS, vectors);
        }
    }
}

void hd_linear_forward(int64_t out, int64_t in, int64_t columns, const float *w, const float *bias,
                       bool relu, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    const struct product p = {.a = w, .row = in, .col = 1, .b = x, .ldb = ldx, .depth = in};
    const struct finish f = {.c = y, .ldc = ldy, .bias = bias, .relu = relu};
    run(p, f, out, columns);
}

void hd_linear_backward_data(int64_t out, int64_t in, int64_t columns, const float *w,
                             const float *dy, int64_t ldy, bool add, const float *x, int64_t ldx,
                             float *dx, int64_t lddx)
{
    const struct product p = {.a = w, .row = 1, .col = in, .b = dy, .ldb = ldy, .depth = out};
    const struct finish f = {.c = dx, .ldc = lddx, .add = add, .x = x, .ldx = ldx};
    run(p, f, in, columns);
}

/* Adds row[n] in one fixed order: HD_LANES partial sums, then pairs of halves. */
static float sum_row(const float *row, int64_t n)
{
    float lanes[HD_LANES] = {0};
    for (int64_t b = 0; b < n; b++)
        lanes[b % HD_LANES] += row[b];
    for (int half = HD_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

void hd_linear_backward_weights(int64_t out, int64_t in, int64_t batch, const float *dy,
                                int64_t ldy, const float *x, int64_t ldx, float *dw, float *dbias)
{
    const struct product p = {.a = dy, .row = ldy, .col = 1, .b = x, .ldb = ldx, .depth = batch};
    const struct finish f = {.c = dw, .ldc = in};
    run(p, f, out, in);
    for (int64_t o = 0; o < out; o++)
        dbias[o] = sum_row(dy + o * ldy, batch);
}

void hd_transpose(int64_t rows, int64_t columns, const float *from, int64_t ld_from, float *to,
                  int64_t ld_to)
{
    int64_t padded = hd_linear_get_ld(rows) < ld_to ? hd_linear_get_ld(rows) : ld_to;
    for (int64_t i0 = 0; i0 < rows; i0 += HD_LANES) {
        int64_t i1 = i0 + HD_LANES < rows ? i0 + HD_LANES : rows;
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = i0; i < i1; i++)
                to[j * ld_to + i] = from[i * ld_from + j];
    }
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = rows; i < padded; i++)
            to[j * ld_to + i] = 0;
}
