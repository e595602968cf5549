/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of samples against the numbers of docs/di-engine.md 9.4 and sums in double; those of a
 * GPU against the CPU's. */
#include "kernels/common/moments.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"

TEST(running_moments_of_the_spec)
{
    double count = 1e-4, mean = 0, squares = 1e-4, c, m, s;
    const struct hd_moments running = {&count, &mean, &squares}, batch = {&c, &m, &s};
    const float first[] = {1, 2, 3, 4}, second[] = {-1, 0, 5};
    hd_moments_compute(first, 4, 1, batch);
    hd_moments_merge(running, batch, 1);
    ck_assert_double_eq_tol(mean, 2.4999375, 1e-7);
    ck_assert_double_eq_tol(squares / count, 1.25015, 1e-5);
    hd_moments_compute(second, 3, 1, batch);
    hd_moments_merge(running, batch, 1);
    ck_assert_double_eq_tol(mean, 1.9999714, 1e-7);
    ck_assert_double_eq_tol(sqrt(squares / count + 1e-8), 2.0000036, 1e-6);
    hd_moments_compute(second, 0, 1, batch);
    hd_moments_merge(running, batch, 1);
    ck_assert_double_eq_tol(mean, 1.9999714, 1e-7);
}

TEST(moments_of_bytes)
{
    enum { N = 77, SAMPLES = 300 };
    static uint8_t bytes[SAMPLES][N];
    static float floats[SAMPLES][N];
    uint32_t sum[N] = {0}, square[N] = {0};
    struct hd_rng rng = hd_rng_make(3, 1, 4, 1, 5);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < N; j++)
            floats[i][j] = bytes[i][j] =
                j == 0 ? 255 : (uint8_t)hd_rng_draw_below(&rng, (uint32_t)(i * N + j), 256);
    double c[2], m[2][N], s[2][N];
    hd_moments_compute(floats[0], SAMPLES, N, (struct hd_moments){&c[0], m[0], s[0]});
    for (int i = 0; i < SAMPLES; i++)
        hd_moments_add_bytes(bytes[i], N, sum, square);
    hd_moments_finish_bytes(sum, square, SAMPLES, N, (struct hd_moments){&c[1], m[1], s[1]});
    ck_assert_double_eq(c[0], c[1]);
    for (int j = 0; j < N; j++) {
        ck_assert_double_eq_tol(m[0][j], m[1][j], 1e-9);
        ck_assert_double_eq_tol(s[0][j], s[1][j], 1e-4);
    }
    ck_assert_double_eq(s[1][0], 0);
}

#if HD_CUDA
enum { GUARD = 4 };

struct size {
    int64_t rows, n;
};

static const struct size sizes[] = {{0, 3},   {1, 1},  {5000, 1}, {9, 2},
                                    {77, 33}, {3, 70}, {40, 400}, {130, 16}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static struct hd_moments host_moments(int64_t n)
{
    return (struct hd_moments){test_alloc(1, 8), test_alloc(n + GUARD, 8),
                               test_alloc(n + GUARD, 8)};
}

/* Returns moments in device memory with this content, or undefined. */
static struct hd_moments device_moments(const struct hd_moments *content, int64_t n)
{
    return (struct hd_moments){device_make(content ? content->count : NULL, 8),
                               device_make(content ? content->mean : NULL, (n + GUARD) * 8),
                               device_make(content ? content->squares : NULL, (n + GUARD) * 8)};
}

static struct hd_moments fetched(struct hd_moments there, int64_t n)
{
    const struct hd_moments host = host_moments(n);
    device_get(host.count, there.count, 8);
    device_get(host.mean, there.mean, (n + GUARD) * 8);
    device_get(host.squares, there.squares, (n + GUARD) * 8);
    return host;
}

static void check_guard(struct hd_moments found, int64_t n)
{
    for (int64_t j = n; j < n + GUARD; j++)
        ck_assert(isnan(found.mean[j]) && isnan(found.squares[j]));
}

/* Sums of up to 5,000 operands in two orders differ by less than 5,000 roundings of 1e-16. */
TEST(moments_of_floats_cuda, .runs = SIZES, .cuda = true)
{
    const int64_t rows = sizes[_i].rows, n = sizes[_i].n;
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 4, (int64_t)_i);
    float *x = test_alloc(rows * n + 1, sizeof *x);
    for (int64_t i = 0; i < rows * n; i++)
        x[i] = (float)(3 + hd_rng_draw_uniform(&rng, (uint32_t)i));
    const struct hd_moments expected = host_moments(n), there = device_moments(NULL, n);
    hd_moments_compute(x, rows, n, expected);
    ck_assert_int_eq(hd_moments_compute_cuda(device_make(x, (rows * n + 1) * 4), rows, n, there,
                                             device_stream()),
                     HD_OK);
    const struct hd_moments found = fetched(there, n);
    ck_assert_double_eq(*found.count, (double)rows);
    for (int64_t j = 0; j < n; j++) {
        CHECK_CLOSE(found.mean[j], expected.mean[j], 4, 5e-13, "mean");
        CHECK_CLOSE(found.squares[j], expected.squares[j], (double)rows + 1, 5e-13, "squares");
    }
    check_guard(found, n);
}

/* Rows may start at any byte. */
TEST(moments_of_bytes_cuda, .runs = 2 * SIZES, .cuda = true)
{
    const int64_t rows = sizes[_i / 2].rows, n = sizes[_i / 2].n, off = _i % 2;
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 5, (int64_t)_i);
    uint8_t *x = test_alloc(off + rows * n + 1, 1);
    uint32_t *sum = test_alloc(n, 4), *square = test_alloc(n, 4);
    for (int64_t i = 0; i < rows * n; i++)
        x[off + i] = i % n == 0 ? 255 : (uint8_t)hd_rng_draw_below(&rng, (uint32_t)i, 256);
    for (int64_t i = 0; i < rows; i++)
        hd_moments_add_bytes(x + off + i * n, n, sum, square);
    const struct hd_moments expected = host_moments(n), there = device_moments(NULL, n);
    hd_moments_finish_bytes(sum, square, rows, n, expected);
    const uint8_t *x_there = device_make(x, off + rows * n + 1);
    ck_assert_int_eq(hd_moments_compute_bytes_cuda(
                         x_there + off, rows, n, device_make(NULL, hd_moments_get_scratch_bytes(n)),
                         there, device_stream()),
                     HD_OK);
    const struct hd_moments found = fetched(there, n);
    ck_assert_double_eq(*found.count, (double)rows);
    ck_assert_mem_eq(found.mean, expected.mean, (size_t)n * 8);
    ck_assert_mem_eq(found.squares, expected.squares, (size_t)n * 8);
    check_guard(found, n);
}

static struct hd_moments some_moments(int64_t n, double count, int64_t seed)
{
    const struct hd_rng rng = hd_rng_make((uint64_t)seed, 2, 3, 6, 0);
    const struct hd_moments of = host_moments(n);
    *of.count = count;
    for (int64_t j = 0; j < n; j++) {
        of.mean[j] = count == 0 ? 0 : hd_rng_draw_uniform(&rng, (uint32_t)(2 * j));
        of.squares[j] = count == 0 ? 0 : 20 * hd_rng_draw_uniform(&rng, (uint32_t)(2 * j + 1));
    }
    for (int64_t j = n; j < n + GUARD; j++)
        of.mean[j] = of.squares[j] = NAN;
    return of;
}

static void check_same(struct hd_moments there, struct hd_moments expected, int64_t n)
{
    const struct hd_moments found = fetched(there, n);
    ck_assert_double_eq(*found.count, *expected.count);
    ck_assert_mem_eq(found.mean, expected.mean, (size_t)n * 8);
    ck_assert_mem_eq(found.squares, expected.squares, (size_t)n * 8);
    check_guard(found, n);
}

static const int reduces[] = {1, 2, 3, 4, 5, 7, 8, 11, 33, 63, HD_MOMENTS_OPERANDS};
enum { FOLDS = sizeof reduces / sizeof reduces[0], REDUCED = 300 };

static void *operand_of(void *arg, int64_t i, int level)
{
    (void)level;
    return (struct hd_moments *)arg + i;
}

static void *merge_operands(void *arg, int level, void *left, void *right)
{
    (void)arg, (void)level;
    hd_moments_merge(*(struct hd_moments *)left, *(struct hd_moments *)right, REDUCED);
    return left;
}

/* Operands are any number of moments, some of them without samples. */
TEST(folded_moments_cuda, .runs = FOLDS, .cuda = true)
{
    struct hd_moments operands[HD_MOMENTS_OPERANDS];
    struct hd_moments_operands there = {.n = reduces[_i]};
    for (int i = 0; i < there.n; i++) {
        operands[i] = some_moments(REDUCED, (i + _i) % 5 == 0 ? 0 : 3 + i, i);
        there.operand[i] = device_moments(&operands[i], REDUCED);
    }
    const struct hd_moments to = device_moments(NULL, REDUCED);
    ck_assert_int_eq(hd_moments_reduce_cuda(&there, REDUCED, to, device_stream()), HD_OK);
    const struct hd_moments *sum = hd_tree_reduce(0, there.n, operand_of, merge_operands, operands);
    check_same(to, *sum, REDUCED);
}

static const double counts[][2] = {{7, 5}, {0, 5}, {7, 0}, {0, 0}};
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* The net reads scale and shift of running moments. */
TEST(joined_moments_cuda, .runs = COUNTS, .cuda = true)
{
    enum { N = 300 };
    const double prior = 1e-4, epsilon = _i % 2 ? 1 : 1e-8;
    const struct hd_moments into = some_moments(N, counts[_i][0], 3);
    const struct hd_moments other = some_moments(N, counts[_i][1], 4);
    const struct hd_moments there = device_moments(&into, N);
    float *scale = device_make(NULL, (N + GUARD) * 4), *shift = device_make(NULL, (N + GUARD) * 4);
    float found[2][N + GUARD];
    ck_assert_int_eq(hd_moments_merge_running_cuda(there, device_moments(&other, N), N, prior,
                                                   epsilon, scale, shift, device_stream()),
                     HD_OK);
    device_get(found[0], scale, sizeof found[0]);
    device_get(found[1], shift, sizeof found[1]);
    const bool changes = *other.count > 0;
    for (int j = 0; j < N && changes && *into.count == 0; j++)
        into.squares[j] = prior;
    if (changes && *into.count == 0)
        *into.count = prior;
    hd_moments_merge(into, other, N);
    check_same(there, into, N);
    for (int j = 0; j < N + GUARD; j++) {
        if (j >= N || !changes) {
            ck_assert(isnan(found[0][j]) && isnan(found[1][j]));
            continue;
        }
        const double factor = 1 / sqrt(into.squares[j] / *into.count + epsilon);
        ck_assert_float_eq(found[0][j], (float)factor);
        ck_assert_float_eq(found[1][j], (float)(-into.mean[j] * factor));
    }
}
#endif
