/* SPDX-License-Identifier: Apache-2.0 */
/* Products of float matrices that fit the second-level cache, for kernels that need many of them.
 * Thread safe, no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A matrix whose element [m][k] is at + m * row + k * column. */
struct hd_matrix {
    const float *at;
    int64_t row, column;
};

/* Computes c[m][n] = (add ? c[m][n] : 0) + sum_k a[m][k] b[k][n], each element one chain over k in
 * increasing order. b and c are row-major; n is a multiple of 16. */
void hd_matrix_multiply(int64_t rows, int64_t columns, int64_t depth, const struct hd_matrix *a,
                        const float *b, int64_t ldb, bool add, float *c, int64_t ldc);
