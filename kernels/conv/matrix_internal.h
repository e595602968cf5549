/* SPDX-License-Identifier: Apache-2.0 */
/* Products of float matrices that fit the second cache, for kernels that are made of many of them.
 * Thread safe, no allocation. */
#ifndef HD_KERNELS_CONV_MATRIX_INTERNAL_H
#define HD_KERNELS_CONV_MATRIX_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

/* a[m][k] at a + m * row + k * column. */
struct hd_matrix {
    const float *at;
    int64_t row, column;
};

/* c[m][n] = (add ? c[m][n] : 0) + sum_k a[m][k] b[k][n], one chain over k in increasing order; b
 * and c are rows, n a multiple of 16. */
void hd_matrix_multiply(int64_t rows, int64_t columns, int64_t depth, const struct hd_matrix *a,
                        const float *b, int64_t ldb, bool add, float *c, int64_t ldc);

#endif
