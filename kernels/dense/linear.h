/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers on feature-major activations: X[i][b], feature i, batch column b, rows `ld` floats
 * apart; ld is a multiple of HD_LANES, and columns beyond the batch are of no meaning. Every output
 * element is one chain of multiply-adds over the summed index in increasing order, so its bits
 * depend on neither blocking, batch size nor column. Weights are PyTorch's W[out][in]. Thread safe,
 * no allocation; no two pointers of a call overlap unless stated. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HD_LANES = 16 /* floats of a vector */ };

/* Returns the next multiple of HD_LANES, which vectors over so many columns cover. */
static inline int64_t hd_linear_round_up(int64_t columns)
{
    return (columns + HD_LANES - 1) / HD_LANES * HD_LANES;
}

/* Returns the leading dimension for `columns` columns. From 256 on it is an odd number of vectors,
 * because caches hold few lines whose distances are multiples of a large power of two. */
static inline int64_t hd_linear_get_ld(int64_t columns)
{
    const int64_t ld = hd_linear_round_up(columns);
    return ld < 256 ? ld : ld | HD_LANES;
}

/* Computes Y[o][b] = bias[o] + sum_i W[o][i] X[i][b], then max(0, Y) if relu, for all b < columns
 * (a multiple of HD_LANES). */
void hd_linear_forward(int64_t out, int64_t in, int64_t columns, const float *w, const float *bias,
                       bool relu, const float *x, int64_t ldx, float *y, int64_t ldy);

/* Computes dX[i][b] = (add ? dX : 0) + sum_o W[o][i] dY[o][b], for all b < columns (a multiple of
 * HD_LANES). x, if not NULL, is the layer's input after a ReLU: the result is 0 where x is not
 * positive. */
void hd_linear_backward_data(int64_t out, int64_t in, int64_t columns, const float *w,
                             const float *dy, int64_t ldy, bool add, const float *x, int64_t ldx,
                             float *dx, int64_t lddx);

/* Computes dW[o][i] = sum_b dY[o][b] X[i][b] and dbias[o] = sum_b dY[o][b], b < batch. `scratch`
 * has hd_linear_count_scratch floats, 64-byte aligned. */
void hd_linear_backward_weights(int64_t out, int64_t in, int64_t batch, const float *dy,
                                int64_t ldy, const float *x, int64_t ldx, float *dw, float *dbias,
                                float *scratch);
int64_t hd_linear_count_scratch(int64_t in, int64_t batch);

/* A product of matrices of which A may be transposed and B may not: C[m][n] = (add ? C[m][n] : 0) +
 * sum_k A[m][k] B[k][n], for m < rows, n < columns (any numbers) and k < depth. */
struct hd_product {
    int64_t rows, columns, depth;
    const float *a; /* A[m][k] is a[m * a_row + k * a_column] */
    int64_t a_row, a_column;
    const float *b; /* rows are readable up to the next multiple of HD_LANES */
    int64_t ldb;
    float *c;
    int64_t ldc;
    bool add;
};
void hd_linear_multiply(const struct hd_product *product);

/* Computes to[j][i] = from[i][j] for i < rows, j < columns, and zeroes columns of `to` from `rows`
 * up to its next multiple of HD_LANES (within ld_to). */
void hd_transpose(int64_t rows, int64_t columns, const float *from, int64_t ld_from, float *to,
                  int64_t ld_to);
