/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers against sums in double; odd sizes; bits of a row do not depend on its batch; nothing
 * is written outside the outputs. */
#include "kernels/dense/linear.h"
#include "runtime/base/rng.h"
#include "tests/kernels/common/check_close.h"

#include <string.h>

enum { GUARD = 64 };
static const float guard_value = -7777.25f;

static const int sizes[][3] = {{1, 1, 1},   {3, 5, 1},     {17, 4, 3},     {6, 64, 16},
                               {7, 65, 17}, {128, 4, 8},   {64, 128, 64},  {2, 64, 65},
                               {1, 64, 64}, {13, 31, 100}, {128, 128, 64}, {5, 33, 300}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Floats with guards on both sides. */
static float *guarded(int64_t n)
{
    float *memory = test_alloc(n + 2 * GUARD, sizeof *memory);
    for (int64_t i = 0; i < GUARD; i++)
        memory[i] = memory[GUARD + n + i] = guard_value;
    return memory + GUARD;
}

static void check_guards(const float *data, int64_t n)
{
    for (int64_t i = 1; i <= GUARD; i++)
        ck_assert(data[-i] == guard_value && data[n + i - 1] == guard_value);
}

static float *randoms(int64_t n, uint64_t stream)
{
    struct hd_rng rng = hd_rng_make(1, stream, 0, 0, 0);
    float *data = test_alloc(n, sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(2 * hd_rng_draw_uniform(&rng, (uint32_t)i) - 1);
    return data;
}

/* float32 sums of k terms below 1: rounding grows with k at worst. */
static double limit(int64_t k)
{
    return 1e-7 * (double)(k + 4);
}

/* [rows][batch] with columns beyond the batch zero. */
static float *feature_major(const float *dense, int64_t rows, int64_t batch)
{
    int64_t ld = hd_linear_get_ld(batch);
    float *x = test_alloc(rows * ld, sizeof *x);
    for (int64_t i = 0; i < rows; i++)
        memcpy(x + i * ld, dense + i * batch, (size_t)batch * sizeof *x);
    return x;
}

TEST(forward_is_a_matrix_product, .runs = N_SIZES)
{
    int64_t out = sizes[_i][0], in = sizes[_i][1], batch = sizes[_i][2],
            ld = hd_linear_get_ld(batch);
    float *w = randoms(out * in, 1), *bias = randoms(out, 2), *dense = randoms(in * batch, 3);
    float *x = feature_major(dense, in, batch), *y = guarded(out * ld);
    for (int relu = 0; relu < 2; relu++) {
        hd_linear_forward(out, in, ld, w, bias, relu, x, ld, y, ld);
        check_guards(y, out * ld);
        for (int64_t o = 0; o < out; o++)
            for (int64_t b = 0; b < batch; b++) {
                double sum = bias[o];
                for (int64_t i = 0; i < in; i++)
                    sum += (double)w[o * in + i] * dense[i * batch + b];
                if (relu && sum < 0)
                    sum = 0;
                CHECK_CLOSE(y[o * ld + b], sum, 1.0, limit(in), "y");
            }
    }
}

/* A is taken as it lies or transposed; rows of C have a number between them. */
TEST(products_of_rows, .runs = 4 * N_SIZES)
{
    const int *size = sizes[_i / 4];
    const bool transposed = _i % 2, add = _i / 2 % 2;
    const int64_t rows = size[2], depth = size[1], columns = size[0], ldc = columns + 1;
    const float *a = randoms(rows * depth, 1), *b = randoms(depth * columns + HD_LANES, 2);
    float *c = guarded(rows * ldc);
    for (int64_t i = 0; i < rows * ldc; i++)
        c[i] = guard_value;
    hd_linear_multiply(&(struct hd_product){.rows = rows,
                                            .columns = columns,
                                            .depth = depth,
                                            .a = a,
                                            .a_row = transposed ? 1 : depth,
                                            .a_column = transposed ? rows : 1,
                                            .b = b,
                                            .ldb = columns,
                                            .c = c,
                                            .ldc = ldc,
                                            .add = add});
    check_guards(c, rows * ldc);
    for (int64_t m = 0; m < rows; m++) {
        ck_assert(c[m * ldc + columns] == guard_value);
        for (int64_t n = 0; n < columns; n++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += (double)a[transposed ? k * rows + m : m * depth + k] * b[k * columns + n];
            CHECK_CLOSE(c[m * ldc + n], sum + (add ? (double)guard_value : 0),
                        add ? -guard_value : 1.0, limit(depth), "c");
        }
    }
}

TEST(backward_data_is_the_transposed_product, .runs = N_SIZES)
{
    int64_t out = sizes[_i][0], in = sizes[_i][1], batch = sizes[_i][2],
            ld = hd_linear_get_ld(batch);
    float *w = randoms(out * in, 1), *dense = randoms(out * batch, 4);
    float *dy = feature_major(dense, out, batch), *active = randoms(in * ld, 5);
    float *dx = guarded(in * ld);
    hd_linear_backward_data(out, in, ld, w, dy, ld, false, active, ld, dx, ld);
    check_guards(dx, in * ld);
    float *once = test_alloc(in * ld, sizeof *once);
    hd_linear_backward_data(out, in, ld, w, dy, ld, false, NULL, 0, once, ld);
    float *twice = test_alloc(in * ld, sizeof *twice);
    memcpy(twice, once, (size_t)(in * ld) * sizeof *twice);
    hd_linear_backward_data(out, in, ld, w, dy, ld, true, NULL, 0, twice, ld);
    for (int64_t i = 0; i < in; i++)
        for (int64_t b = 0; b < batch; b++) {
            double sum = 0;
            for (int64_t o = 0; o < out; o++)
                sum += (double)w[o * in + i] * dense[o * batch + b];
            CHECK_CLOSE(once[i * ld + b], sum, 1.0, limit(out), "dx");
            ck_assert(dx[i * ld + b] == (active[i * ld + b] > 0 ? once[i * ld + b] : 0));
            ck_assert(twice[i * ld + b] == once[i * ld + b] + once[i * ld + b]);
        }
}

TEST(backward_weights_sums_over_the_batch, .runs = N_SIZES)
{
    int64_t out = sizes[_i][0], in = sizes[_i][1], batch = sizes[_i][2],
            ld = hd_linear_get_ld(batch);
    float *dense_dy = randoms(out * batch, 6), *dense_x = randoms(in * batch, 7);
    float *dy = feature_major(dense_dy, out, batch), *x = feature_major(dense_x, in, batch);
    float *scratch = test_alloc(hd_linear_count_scratch(in, batch), sizeof *scratch);
    float *dw = guarded(out * in), *db = guarded(out);
    hd_linear_backward_weights(out, in, batch, dy, ld, x, ld, dw, db, scratch);
    check_guards(dw, out * in);
    check_guards(db, out);
    for (int64_t o = 0; o < out; o++) {
        double bias = 0;
        for (int64_t b = 0; b < batch; b++)
            bias += dense_dy[o * batch + b];
        CHECK_CLOSE(db[o], bias, 1.0, limit(batch), "dbias");
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t b = 0; b < batch; b++)
                sum += (double)dense_dy[o * batch + b] * dense_x[i * batch + b];
            CHECK_CLOSE(dw[o * in + i], sum, 1.0, limit(batch), "dw");
        }
    }
}

TEST(transpose_moves_every_element_and_clears_the_rest, .runs = N_SIZES)
{
    int64_t rows = sizes[_i][0], columns = sizes[_i][1], ld_to = hd_linear_get_ld(rows);
    float *from = randoms(rows * columns, 8), *to = guarded(columns * ld_to);
    hd_transpose(rows, columns, from, columns, to, ld_to);
    check_guards(to, columns * ld_to);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < ld_to; i++)
            ck_assert(to[j * ld_to + i] == (i < rows ? from[i * columns + j] : 0));
}

TEST(bits_of_a_column_do_not_depend_on_the_batch)
{
    enum { OUT = 23, IN = 57, ALL = 130 };
    static const int64_t batches[] = {1, 3, 8, 16, 17, 64, 65, 128};
    float *w = randoms(OUT * IN, 1), *bias = randoms(OUT, 2), *dense = randoms(IN * ALL, 3);
    float *x = feature_major(dense, IN, ALL);
    int64_t ld = hd_linear_get_ld(ALL);
    float *y = test_alloc(OUT * ld, sizeof *y), *part = test_alloc(OUT * ld, sizeof *part);
    hd_linear_forward(OUT, IN, ld, w, bias, true, x, ld, y, ld);
    for (int k = 0; k < (int)(sizeof batches / sizeof *batches); k++)
        for (int64_t first = 0; first + batches[k] <= ALL; first += 13) {
            float *some = test_alloc(IN * batches[k], sizeof *some);
            for (int64_t i = 0; i < IN; i++)
                memcpy(some + i * batches[k], dense + i * ALL + first,
                       (size_t)batches[k] * sizeof *some);
            int64_t ld_part = hd_linear_get_ld(batches[k]);
            hd_linear_forward(OUT, IN, ld_part, w, bias, true, feature_major(some, IN, batches[k]),
                              ld_part, part, ld_part);
            for (int64_t o = 0; o < OUT; o++)
                ck_assert(memcmp(part + o * ld_part, y + o * ld + first,
                                 (size_t)batches[k] * sizeof *y) == 0);
        }
}
