/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices against sums in double: `a` row-major or column-major, sizes beyond what
 * fits registers and caches at once, sums that continue earlier ones. */
#include "kernels/conv/matrix_internal.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"

#include <string.h>

static const int64_t sizes[][3] = {
    /* rows, columns, depth */
    {1, 16, 1}, {5, 48, 3}, {6, 64, 128}, {13, 80, 129}, {50, 32, 300}, {7, 256, 64}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static float *filled(int64_t n, uint64_t stream)
{
    float *m = guarded(n * 4);
    for (int64_t i = 0; i < n; i++)
        m[i] = (float)(fill(stream, (uint64_t)i) - 0.5);
    return m;
}

/* Rows of b and c are 16 floats longer than they need be. */
static void check(int64_t rows, int64_t columns, int64_t depth, bool transposed, bool add)
{
    const int64_t ld = columns + 16;
    float *a = filled(rows * depth, 1), *b = filled(depth * ld, 2), *c = filled(rows * ld, 3);
    float *before = filled(rows * ld, 3);
    const struct hd_matrix left = {a, transposed ? 1 : depth, transposed ? rows : 1};
    hd_matrix_multiply(rows, columns, depth, &left, b, ld, add, c, ld);
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < ld; n++) {
            double sum = add || n >= columns ? before[m * ld + n] : 0, size = 1;
            for (int64_t k = 0; k < depth && n < columns; k++) {
                sum += (double)a[m * left.row + k * left.column] * b[k * ld + n];
                size += 0.25;
            }
            CHECK_CLOSE(c[m * ld + n], sum, size, n < columns ? 1e-7 : 0, "product");
        }
    check_guard(a, rows * depth * 4);
    check_guard(b, depth * ld * 4);
    check_guard(c, rows * ld * 4);
    free_test_blocks();
}

TEST(products_are_sums, .runs = 4)
{
    for (int i = 0; i < N_SIZES; i++)
        check(sizes[i][0], sizes[i][1], sizes[i][2], _i % 2, _i / 2);
}
