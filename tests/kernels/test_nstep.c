/* SPDX-License-Identifier: Apache-2.0 */
/* n-step assembly: the spec's numbers (9.4), and chunks of many lengths against a naive version
 * that walks step by step. */
#include "kernels/nstep.h"
#include "runtime/base/alloc.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { OBS = 2, MAX_LENGTH = 9, FIRST = 2 };

struct steps {
    float obs[MAX_LENGTH + 1][OBS], reward[MAX_LENGTH];
    int32_t action[MAX_LENGTH];
};

/* Observation i is (i, -i), reward i is i + 1 and action i is 10 + i. */
static struct steps make_steps(void)
{
    struct steps steps;
    for (int i = 0; i <= MAX_LENGTH; i++) {
        steps.obs[i][0] = (float)i;
        steps.obs[i][1] = (float)-i;
        if (i < MAX_LENGTH) {
            steps.reward[i] = (float)(i + 1);
            steps.action[i] = 10 + i;
        }
    }
    return steps;
}

static struct hd_chunk chunk_of(const struct steps *steps, int64_t length, bool done)
{
    return (struct hd_chunk){length, steps->obs[0], steps->action, steps->reward, done};
}

struct block {
    struct hd_transition_shape shape;
    void *memory;
    struct hd_transitions rows;
};

static struct block make_block(int64_t rows, int64_t nstep)
{
    struct block block = {.shape = {rows, OBS, nstep, nstep > 1}};
    block.memory = hd_alloc(1, (size_t)hd_transitions_bytes(&block.shape));
    block.rows = hd_transitions_at(&block.shape, block.memory);
    return block;
}

START_TEST(test_spec_numbers)
{
    static const float reward[6][3] = {{1, 2, 3}, {2, 3, 4}, {3, 4, 5},
                                       {4, 5, 6}, {5, 6, 0}, {6, 0, 0}};
    static const float next[6] = {3, 4, 5, 6, 6, 6};
    static const float gammas[6] = {.970299f, .970299f, .970299f, .9801f, .99f, 1};
    struct steps steps = make_steps();
    struct hd_chunk chunk = chunk_of(&steps, 6, true);
    struct block block = make_block(6, 3);
    hd_nstep(&chunk, .99, HD_NSTEP_PARITY, &block.shape, block.rows, 0, 6);
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 3; j++)
            ck_assert_float_eq(block.rows.reward[j * 6 + i], reward[i][j]);
        ck_assert_float_eq(block.rows.next_obs[i * OBS], next[i]);
        ck_assert_float_eq(block.rows.value_gamma[i], gammas[i]);
        ck_assert_float_eq(block.rows.done[i], i >= 3);
    }
    hd_free(block.memory);
}
END_TEST

START_TEST(test_shorter_than_n)
{
    struct steps steps = make_steps();
    struct hd_chunk chunk = chunk_of(&steps, 2, false);
    struct block block = make_block(2, 3);
    hd_nstep(&chunk, .99, HD_NSTEP_PARITY, &block.shape, block.rows, 0, 2);
    ck_assert_float_eq(block.rows.value_gamma[0], .99f);
    ck_assert_float_eq(block.rows.value_gamma[1], 1);
    hd_nstep(&chunk, .99, HD_NSTEP_CORRECTED, &block.shape, block.rows, 0, 2);
    ck_assert_float_eq(block.rows.value_gamma[0], .9801f);
    ck_assert_float_eq(block.rows.value_gamma[1], .99f);
    hd_free(block.memory);
}
END_TEST

/* n = 1: a chunk's own steps, with no bootstrap factor whatever the tail. */
START_TEST(test_one_step)
{
    struct steps steps = make_steps();
    struct hd_chunk chunk = chunk_of(&steps, 4, true);
    struct block block = make_block(4, 1);
    ck_assert_ptr_null(block.rows.value_gamma);
    hd_nstep(&chunk, .97, HD_NSTEP_PARITY, &block.shape, block.rows, 0, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_float_eq(block.rows.obs[i * OBS + 1], (float)-i);
        ck_assert_float_eq(block.rows.next_obs[i * OBS + 1], (float)(-i - 1));
        ck_assert_float_eq(block.rows.reward[i], (float)(i + 1));
        ck_assert_int_eq(block.rows.action[i], 10 + i);
        ck_assert_float_eq(block.rows.done[i], i == 3);
    }
    hd_free(block.memory);
}
END_TEST

struct sample {
    double reward[MAX_LENGTH + 2], next, done, gamma;
};

/* Walks on from step i until n rewards are taken or the chunk ends. */
static struct sample naive(const struct hd_chunk *chunk, int64_t i, int64_t n, double gamma,
                           enum hd_nstep_tail tail)
{
    struct sample sample = {.gamma = 1};
    int64_t at = i;
    for (; at < chunk->length && at - i < n; at++) {
        sample.reward[at - i] = (double)chunk->reward[at];
        sample.gamma *= gamma;
    }
    sample.next = (double)chunk->obs[at * OBS];
    if (at == chunk->length) {
        sample.done = chunk->done;
        if (tail == HD_NSTEP_PARITY)
            sample.gamma /= gamma;
    }
    return sample;
}

static void check_chunk(int64_t length, int64_t n, int64_t count, bool done,
                        enum hd_nstep_tail tail)
{
    struct steps steps = make_steps();
    struct hd_chunk chunk = chunk_of(&steps, length, done);
    struct block block = make_block(FIRST + MAX_LENGTH + 1, n);
    const int64_t rows = block.shape.rows;
    hd_nstep(&chunk, .9, tail, &block.shape, block.rows, FIRST, count);
    for (int64_t i = 0; i < rows; i++) {
        int64_t step = i - FIRST;
        if (step < 0 || step >= count) { /* rows beside the chunk's stay as they were */
            ck_assert_float_eq(block.rows.reward[i], 0);
            ck_assert_int_eq(block.rows.action[i], 0);
            continue;
        }
        struct sample sample = naive(&chunk, step, n, .9, tail);
        for (int64_t j = 0; j < n; j++)
            ck_assert_double_eq((double)block.rows.reward[j * rows + i], sample.reward[j]);
        ck_assert_float_eq(block.rows.obs[i * OBS], (float)step);
        ck_assert_double_eq((double)block.rows.next_obs[i * OBS], sample.next);
        ck_assert_double_eq((double)block.rows.next_obs[i * OBS + 1], -sample.next);
        ck_assert_double_eq((double)block.rows.done[i], sample.done);
        ck_assert_int_eq(block.rows.action[i], 10 + step);
        if (n > 1)
            ck_assert_double_eq_tol((double)block.rows.value_gamma[i], sample.gamma, 1e-7);
    }
    hd_free(block.memory);
}

START_TEST(test_naive)
{
    for (int64_t length = 1; length <= MAX_LENGTH; length++)
        for (int64_t n = 1; n <= MAX_LENGTH + 2; n++)
            for (int options = 0; options < 8; options++)
                check_chunk(length, n, options & 4 ? length : length / 2, options & 1,
                            options & 2 ? HD_NSTEP_PARITY : HD_NSTEP_CORRECTED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nstep");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_spec_numbers);
    tcase_add_test(tests, test_shorter_than_n);
    tcase_add_test(tests, test_one_step);
    tcase_add_test(tests, test_naive);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
