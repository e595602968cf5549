/* SPDX-License-Identifier: Apache-2.0 */
/* Products that keep a block of the result in registers over the summed index. This file is
 * compiled with contraction, which is safe because every element is one chain of fused
 * multiply-adds. */
#include "kernels/common/vector.h"
#include "kernels/conv/matrix_internal.h"

enum {
    ROWS = HD_REG_ROWS,
    VECTORS = HD_REG_COLUMNS,
    DEPTH = 128 /* so that a panel of b stays in the first-level cache */
};

/* A block of the result and its operands. */
struct block {
    struct hd_matrix a;
    const float *b;
    int64_t ldb, depth;
    bool add;
    float *c;
    int64_t ldc;
};

HD_ALWAYS void multiply(const struct block *p, int rows, int vectors)
{
    hd_reg sum[ROWS][VECTORS] = {{{0}}};
    for (int r = 0; r < rows && p->add; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = hd_reg_load(p->c + r * p->ldc + v * HD_REG);
    const float *a = p->a.at, *b = p->b;
    for (int64_t k = 0; k < p->depth; k++, a += p->a.column, b += p->ldb) {
        hd_reg row[VECTORS];
        for (int v = 0; v < vectors; v++)
            row[v] = hd_reg_load(b + v * HD_REG);
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                sum[r][v] += a[r * p->a.row] * row[v];
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(p->c + r * p->ldc + v * HD_REG, sum[r][v]);
}

static void run(const struct block *p, int rows, int vectors)
{
    HD_UNROLL(multiply, p, rows, vectors)
}

void hd_matrix_multiply(int64_t rows, int64_t columns, int64_t depth, const struct hd_matrix *a,
                        const float *b, int64_t ldb, bool add, float *c, int64_t ldc)
{
    for (int64_t k = 0; k < depth; k += DEPTH)
        for (int64_t n = 0; n < columns; n += VECTORS * HD_REG)
            for (int64_t m = 0; m < rows; m += ROWS) {
                const struct block block = {
                    .a = {a->at + m * a->row + k * a->column, a->row, a->column},
                    .b = b + k * ldb + n,
                    .ldb = ldb,
                    .depth = hd_min(depth - k, DEPTH),
                    .add = add || k > 0,
                    .c = c + m * ldc + n,
                    .ldc = ldc,
                };
                run(&block, (int)hd_min(rows - m, ROWS),
                    (int)(hd_min(columns - n, VECTORS * HD_REG) / HD_REG));
            }
}
