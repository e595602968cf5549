/* SPDX-License-Identifier: Apache-2.0 */
/* The replay ring: what it keeps, and stratified sampling against a walk over prefix sums. */
#include "kernels/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { OBS = 3, NSTEP = 2 };

struct block {
    struct hd_transition_shape shape;
    void *memory;
    struct hd_transitions rows;
};

static struct block make_block(int64_t rows)
{
    struct block block = {.shape = {rows, OBS, NSTEP, true}};
    block.memory = hd_alloc(1, (size_t)hd_transitions_bytes(&block.shape));
    block.rows = hd_transitions_at(&block.shape, block.memory);
    return block;
}

/* Every field of a transition tells its number. */
static void number(struct block *block, int64_t row, int64_t k)
{
    for (int64_t i = 0; i < OBS; i++) {
        block->rows.obs[row * OBS + i] = (float)(10 * k + i);
        block->rows.next_obs[row * OBS + i] = (float)(10 * k + i + 5);
    }
    for (int64_t j = 0; j < NSTEP; j++)
        block->rows.reward[j * block->shape.rows + row] = (float)(100 * j + k);
    block->rows.done[row] = k % 3 == 0;
    block->rows.value_gamma[row] = 1 / (float)(k + 1);
    block->rows.action[row] = (int32_t)k;
}

static void check_number(const struct block *block, int64_t row, int64_t k)
{
    struct block expected = make_block(1);
    number(&expected, 0, k);
    for (int64_t i = 0; i < OBS; i++) {
        ck_assert_float_eq(block->rows.obs[row * OBS + i], expected.rows.obs[i]);
        ck_assert_float_eq(block->rows.next_obs[row * OBS + i], expected.rows.next_obs[i]);
    }
    for (int64_t j = 0; j < NSTEP; j++)
        ck_assert_float_eq(block->rows.reward[j * block->shape.rows + row],
                           expected.rows.reward[j]);
    ck_assert_float_eq(block->rows.done[row], expected.rows.done[0]);
    ck_assert_float_eq(block->rows.value_gamma[row], expected.rows.value_gamma[0]);
    ck_assert_int_eq(block->rows.action[row], expected.rows.action[0]);
    hd_free(expected.memory);
}

/* Pushes `pushes` blocks of `rows`, then compares every position with an array that is written
 * round and round. */
static void check_ring(int64_t capacity, int64_t rows, int64_t pushes)
{
    struct block kept = make_block(capacity), from = make_block(rows), got = make_block(2);
    void *ring = hd_alloc(1, (size_t)hd_replay_bytes(&kept.shape));
    int64_t *naive = calloc((size_t)capacity, sizeof *naive), k = 0;
    for (int64_t push = 0; push < pushes; push++) {
        ck_assert_int_eq(hd_replay_size(&kept.shape, ring), k < capacity ? k : capacity);
        for (int64_t row = 0; row < rows; row++, k++) {
            number(&from, row, k);
            naive[k % capacity] = k;
        }
        hd_replay_push(&kept.shape, ring, &from.shape, from.rows);
    }
    int64_t size = hd_replay_size(&kept.shape, ring);
    ck_assert_int_eq(size, k < capacity ? k : capacity);
    for (int64_t position = 0; position < size; position++) {
        hd_replay_get(&kept.shape, ring, position, &got.shape, got.rows, 1);
        check_number(&got, 1, naive[position]);
    }
    free(naive);
    hd_free(ring);
    hd_free(kept.memory);
    hd_free(from.memory);
    hd_free(got.memory);
}

START_TEST(test_ring)
{
    check_ring(10, 3, 2);  /* not full */
    check_ring(10, 5, 2);  /* just full */
    check_ring(10, 3, 11); /* wrapped in the middle of a push */
    check_ring(4, 11, 3);  /* one push goes round more than once */
    check_ring(1, 1, 5);
}
END_TEST

/* All priorities 1: walk the prefix sum to the mass (i + u) / batch * size. */
static int64_t walk(int64_t i, double u, int64_t batch, int64_t size)
{
    double mass = ((double)i + u) / (double)batch * (double)size, sum = 0;
    int64_t position = 0;
    while (position < size - 1 && sum + 1 <= mass) {
        sum += 1;
        position++;
    }
    return position;
}

START_TEST(test_closed_form)
{
    struct hd_rng rng = hd_rng_make(7, 1, 0, 0, 0);
    static const int64_t batches[] = {1, 2, 7, 64}, sizes[] = {1, 5, 64, 65, 1000};
    uint32_t item = 0;
    for (int b = 0; b < 4; b++)
        for (int s = 0; s < 5; s++)
            for (int64_t i = 0; i < batches[b]; i++) {
                double u = hd_rng_uniform(&rng, item++);
                ck_assert_int_eq(hd_replay_stratum(i, u, batches[b], sizes[s]),
                                 walk(i, u, batches[b], sizes[s]));
            }
}
END_TEST

START_TEST(test_every_item_once)
{
    struct hd_rng rng = hd_rng_make(8, 1, 0, 0, 0);
    for (int64_t i = 0; i < 64; i++)
        ck_assert_int_eq(hd_replay_stratum(i, hd_rng_uniform(&rng, (uint32_t)i), 64, 64), i);
}
END_TEST

/* The i-th draw lies in [i V/B, (i + 1) V/B), so draws are in ring order; the range ends hold. */
START_TEST(test_strata)
{
    struct hd_rng rng = hd_rng_make(9, 1, 0, 0, 0);
    const int64_t batch = 64, size = 1001;
    const double below_one = nextafter(1, 0);
    int64_t before = 0;
    for (int64_t i = 0; i < batch; i++) {
        int64_t at = hd_replay_stratum(i, hd_rng_uniform(&rng, (uint32_t)i), batch, size);
        double width = (double)size / (double)batch;
        ck_assert_double_ge((double)at, floor((double)i * width));
        ck_assert_double_lt((double)at, (double)(i + 1) * width);
        ck_assert_int_ge(at, before);
        before = at;
    }
    ck_assert_int_eq(hd_replay_stratum(0, 0, batch, size), 0);
    ck_assert_int_eq(hd_replay_stratum(batch - 1, below_one, batch, size), size - 1);
    ck_assert_int_eq(hd_replay_stratum(0, below_one, 1, 20000), 19999);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_ring);
    tcase_add_test(tests, test_closed_form);
    tcase_add_test(tests, test_every_item_once);
    tcase_add_test(tests, test_strata);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
