/* SPDX-License-Identifier: Apache-2.0 */
/* Tests Philox 4x32-10 against the known answers of its authors (Random123), and the draws from it.
 */
#include "runtime/base/rng.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

struct answer {
    uint32_t counter[4], key[2], out[4];
};

static const struct answer answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(test_known_answers, .runs = COUNT(answers))
{
    uint32_t out[4];
    hd_philox4x32_generate(answers[_i].counter, answers[_i].key, out);
    ck_assert_mem_eq(out, answers[_i].out, sizeof out);
}

/* A draw depends on each of its coordinates, and on nothing else. */
TEST(test_coordinates)
{
    struct hd_rng base = hd_rng_make(1, 2, 3, 4, 5), again = hd_rng_make(1, 2, 3, 4, 5);
    const struct hd_rng others[] = {hd_rng_make(2, 2, 3, 4, 5), hd_rng_make(1, 3, 3, 4, 5),
                                    hd_rng_make(1, 2, 4, 4, 5), hd_rng_make(1, 2, 3, 5, 5),
                                    hd_rng_make(1, 2, 3, 4, 6), hd_rng_make(2, 1, 3, 4, 5)};
    uint64_t draw = hd_rng_draw_u64(&base, 6);
    ck_assert_uint_eq(hd_rng_draw_u64(&again, 6), draw);
    ck_assert_uint_ne(hd_rng_draw_u64(&base, 7), draw);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_uint_ne(hd_rng_draw_u64(&others[i], 6), draw);
}

TEST(test_words)
{
    struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    const uint32_t counter[4] = {6, 5, 4, 3};
    uint32_t expected[4], words[4];
    hd_philox4x32_generate(counter, rng.key, expected);
    hd_rng_draw_words(&rng, 6, words);
    ck_assert_mem_eq(words, expected, sizeof words);
    uint64_t u64 = hd_rng_draw_u64(&rng, 6);
    ck_assert_uint_eq((uint32_t)u64, words[0]);
    ck_assert_uint_eq((uint32_t)(u64 >> 32), words[1]);
    double uniform = hd_rng_draw_uniform(&rng, 6);
    ck_assert_uint_eq((uint64_t)(uniform * 0x1p53), u64 >> 11);
}

/* Mean 1/2 and variance 1/12 within five standard errors; the seed is fixed, and so is the outcome.
 */
TEST(test_uniform)
{
    struct hd_rng rng = hd_rng_make(11, 1, 0, 0, 0);
    enum { N = 100000 };
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < N; i++) {
        double u = hd_rng_draw_uniform(&rng, i);
        ck_assert(u >= 0 && u < 1);
        sum += u - .5;
        squares += (u - .5) * (u - .5);
    }
    ck_assert_double_eq_tol(sum / N, 0, 5 * .2887 / 316.2);
    ck_assert_double_eq_tol(squares / N, 1. / 12, 5 * .0745 / 316.2);
}

TEST(test_below)
{
    struct hd_rng rng = hd_rng_make(12, 1, 0, 0, 0);
    enum { N = 60000, SIDES = 6 };
    int64_t seen[SIDES] = {0};
    for (uint32_t i = 0; i < N; i++) {
        int64_t side = hd_rng_draw_below(&rng, i, SIDES);
        ck_assert(side >= 0 && side < SIDES);
        seen[side]++;
        ck_assert_int_eq(hd_rng_draw_below(&rng, i, 1), 0);
    }
    double chi2 = 0;
    for (int side = 0; side < SIDES; side++) {
        double miss = (double)seen[side] - N / SIDES;
        chi2 += miss * miss / (N / SIDES);
    }
    ck_assert_double_lt(chi2, 20.5); /* 99.9 % of chi2 with 5 degrees of freedom */
    int64_t large = 0;
    for (uint32_t i = 0; i < 100; i++) {
        int64_t draw = hd_rng_draw_below(&rng, i, INT64_MAX);
        ck_assert_int_ge(draw, 0);
        large += draw > INT64_MAX / 2;
    }
    ck_assert(large > 25 && large < 75);
}
