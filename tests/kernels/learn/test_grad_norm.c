/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares of gradients against a naive sum; on a GPU, the same bits. */
#include "kernels/learn/grad_norm.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tests/kernels/common/device.h"

#include <string.h>

TEST(squares_of_all_elements)
{
    enum { N = 67 };
    struct hd_rng rng = hd_rng_make(6, 7, 8, 9, 10);
    float x[N + 1];
    double expected = 0;
    for (int i = 0; i <= N; i++)
        x[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5f;
    for (int n = 0; n <= N; n++) {
        ck_assert_double_eq_tol(hd_grad_norm_sum_squares(x, n), expected, 1e-14);
        expected += (double)x[n] * x[n];
    }
    x[N / 2] = 1e30f;
    ck_assert_double_eq_tol(hd_grad_norm_sum_squares(x, N) / 1e60, 1, 1e-6);
}

#if HD_CUDA

/* Returns the sum of blocks [first, first + n) as the verb grad_norm adds them. */
static double reduce(const double *blocks, int64_t first, int64_t n)
{
    if (n == 1)
        return blocks[first];
    return reduce(blocks, first, n / 2) + reduce(blocks, first + n / 2, n - n / 2);
}

enum { MAX_PARTIALS = 9, LONGEST = 9 * HD_BLOCK + 1003, STRIDE = LONGEST + 5 };

/* The gradient has two ranges of whole blocks, each with its own samples: [0, 2 blocks) and the
 * rest. */
enum { CUT = 2 * HD_BLOCK, COUNTS = LONGEST + 1 };

static void fill_partials(float *partials, int n)
{
    const struct hd_rng rng = hd_rng_make(6, 7, 8, 9, 10);
    for (uint32_t i = 0; i < (uint32_t)n * STRIDE; i++)
        partials[i] = (float)hd_rng_draw_uniform(&rng, i) - .5f;
    for (int l = 0; l < n; l++) {
        partials[l * STRIDE + COUNTS] = (float)(l + 3);
        partials[l * STRIDE + COUNTS + 1] = 0;
    }
}

/* Computes hd_grad_norm_sum_squares of the mean's blocks of elements [lo, hi). */
static void wanted_blocks(const float *partials, int n, int part, int64_t lo, int64_t hi,
                          double *blocks)
{
    float sum[HD_BLOCK], count;
    const float *counts = partials + COUNTS;
    hd_tree_add(1, &counts, n, STRIDE, part, part + 1, &count);
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        const int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        hd_tree_add(1, &partials, n, STRIDE, at, end, sum);
        for (int64_t i = 0; i < end - at && count > 0; i++)
            sum[i] /= count;
        blocks[at / HD_BLOCK] = hd_grad_norm_sum_squares(sum, end - at);
    }
}

static struct hd_scalar_slot make_slot(void)
{
    const struct hd_scalar_slot slot = {device_shared(sizeof(int64_t)),
                                        device_shared(sizeof(struct hd_scalar))};
    *slot.pushes = 0;
    return slot;
}

static void check_slot(struct hd_scalar_slot slot, double squares, int64_t pushes)
{
    const struct hd_scalar is = {sqrt(squares), 1};
    ck_assert(memcmp(slot.entry, &is, sizeof is) == 0);
    ck_assert_int_eq(*slot.pushes, pushes);
}

/* Partials begin at a multiple of 16 bytes, if STRIDE allows it, and one float further. */
TEST(cuda_squares_are_the_cpu_s, .runs = 12, .cuda = true)
{
    static const int partials[] = {1, 2, 5, MAX_PARTIALS};
    static const int64_t sizes[] = {LONGEST, CUT + 1, CUT + 4 * HD_BLOCK};
    const int n = partials[_i / 3];
    const int64_t size = sizes[_i % 3], blocks = (size + HD_BLOCK - 1) / HD_BLOCK;
    float *here = (float *)test_alloc(n * STRIDE + 1, sizeof *here) + 1;
    here[-1] = NAN;
    fill_partials(here, n);
    double wanted[16], found[16];
    const struct hd_scalar_slot norm = make_slot();
    wanted_blocks(here, n, 0, 0, CUT, wanted);
    wanted_blocks(here, n, 1, CUT, size, wanted);
    for (int off = 0; off < 2; off++) {
        float *there = device_make(here - off, (n * STRIDE + off) * sizeof *here);
        double *squares = device_make(NULL, sizeof found);
        struct hd_partials grad = {there + off, there + off + COUNTS, n, STRIDE};
        ck_assert_int_eq(
            hd_grad_norm_sum_squares_cuda(&grad, NULL, 0, CUT, squares, device_stream()), HD_OK);
        grad.counts++;
        ck_assert_int_eq(
            hd_grad_norm_sum_squares_cuda(&grad, NULL, CUT, size, squares, device_stream()), HD_OK);
        ck_assert_int_eq(hd_grad_norm_push_cuda(squares, blocks, norm, device_stream()), HD_OK);
        device_get(found, squares, sizeof found);
        ck_assert(memcmp(found, wanted, (size_t)blocks * sizeof *found) == 0);
        check_slot(norm, reduce(wanted, 0, blocks), off + 1);
    }
}

/* The tree is over any number of blocks, fewer and more than a thread block has threads. */
TEST(cuda_trees_of_blocks, .cuda = true)
{
    static const int sizes[] = {1, 2, 3, 5, 8, 13, 255, 256, 257, 511, 700, 1025, 5003};
    static double blocks[5003];
    const struct hd_scalar_slot norm = make_slot();
    const struct hd_rng rng = hd_rng_make(1, 7, 8, 9, 10);
    for (int i = 0; i < 5003; i++)
        blocks[i] = hd_rng_draw_uniform(&rng, (uint32_t)i);
    const double *there = device_make(blocks, sizeof blocks);
    for (int k = 0; k < 13; k++) {
        double found;
        ck_assert_int_eq(hd_grad_norm_push_cuda(there, sizes[k], norm, device_stream()), HD_OK);
        device_get(&found, there, sizeof found);
        check_slot(norm, reduce(blocks, 0, sizes[k]), k + 1);
    }
}

#endif
