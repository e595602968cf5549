/* SPDX-License-Identifier: Apache-2.0 */
/* Priorities of a replay against a list of weights that is added up from its start: which
 * transition a share of the sum is in, importance-sampling weights, what is forgotten; that inner
 * nodes do not depend on the order of changes; and what a file may not hold. */
#include "kernels/replay/priorities.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/kernels/common/device.h"

#include <math.h>
#include <string.h>

enum { MOST = 300 };

/* The naive priorities: of every transition ever added. */
struct naive {
    int64_t first, end;
    double max, weight[20 * MOST];
};

static const struct hd_priorities_shape shapes[] = {{1, .6},  {2, 1},   {5, .6},
                                                    {64, .3}, {100, 0}, {MOST, .6}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct hd_priorities *open_priorities(const struct hd_priorities_shape *shape)
{
    return hd_alloc(1, (size_t)hd_priorities_get_bytes(shape));
}

static void naive_push(struct naive *naive, const struct hd_priorities_shape *shape, int64_t first,
                       int64_t end)
{
    for (; naive->end < end; naive->end++)
        naive->weight[naive->end] = pow(naive->max, shape->alpha);
    naive->first = first;
}

/* Returns the sum of the weights of the transitions at indices below `index`. */
static double naive_sum(const struct naive *naive, const struct hd_priorities_shape *shape,
                        int64_t index)
{
    double sum = 0;
    for (int64_t t = naive->first; t < naive->end; t++)
        sum += t % shape->capacity < index ? naive->weight[t] : 0;
    return sum;
}

static double naive_min(const struct naive *naive)
{
    double min = INFINITY;
    for (int64_t t = naive->first; t < naive->end; t++)
        min = fmin(min, naive->weight[t]);
    return min;
}

/* A share well inside the interval of each transition finds it, and so do the ends of the sum. */
static void check_shares(const struct hd_priorities_shape *shape, const struct naive *naive,
                         const struct hd_priorities *priorities)
{
    const double sum = naive_sum(naive, shape, shape->capacity);
    for (int64_t t = naive->first; t < naive->end; t++) {
        const double below = naive_sum(naive, shape, t % shape->capacity);
        const double margin = 1e-9 * sum, weight = naive->weight[t];
        for (double at = 0; at <= 1 && weight > 4 * margin; at += .5)
            ck_assert_int_eq(
                hd_priorities_find(shape, priorities,
                                   (below + margin + at * (weight - 2 * margin)) / sum),
                t);
    }
    for (double u = 0; u <= 1; u++) {
        const int64_t found = hd_priorities_find(shape, priorities, u);
        ck_assert(found >= naive->first && found < naive->end);
    }
}

static void check_importance(const struct hd_priorities_shape *shape, const struct naive *naive,
                             const struct hd_priorities *priorities)
{
    const double sum = naive_sum(naive, shape, shape->capacity), min = naive_min(naive),
                 size = (double)(naive->end - naive->first);
    for (int64_t t = naive->first; t < naive->end; t++)
        for (double beta = 0; beta <= 1; beta += .4) {
            const double largest = pow(size * min / sum, -beta);
            const double wanted = pow(size * naive->weight[t] / sum, -beta) / largest;
            const double found = hd_priorities_compute_importance(shape, priorities, t, beta);
            ck_assert_msg(fabs(found - wanted) <= 2e-7 * wanted, "%g, not %g", found, wanted);
        }
}

/* Pushes up to 7 transitions, and forgets some of the oldest, as a ring does that is short of
 * frames. */
static void push_some(const struct hd_priorities_shape *shape, struct naive *naive,
                      struct hd_priorities *priorities, const struct hd_rng *rng, uint32_t item)
{
    const int64_t end = naive->end + hd_rng_draw_below(rng, item, 8);
    int64_t first = naive->first + (hd_rng_draw_below(rng, item + 1, 4) == 0);
    first = first < end - shape->capacity ? end - shape->capacity : first;
    first = first < end ? first : end;
    naive_push(naive, shape, first, end);
    hd_priorities_push(shape, priorities, first, end);
}

/* Sets the priority of a transition that may have left. */
static void set_some(const struct hd_priorities_shape *shape, struct naive *naive,
                     struct hd_priorities *priorities, const struct hd_rng *rng, uint32_t item)
{
    const int64_t number = naive->first - 2 + hd_rng_draw_below(rng, item, shape->capacity + 4);
    const bool held = number >= naive->first && number < naive->end;
    const double u = hd_rng_draw_uniform(rng, item + 1),
                 priority = hd_rng_draw_below(rng, item + 2, 5) == 0 ? 0 : pow(u, 4) * 30;
    ck_assert_int_eq(hd_priorities_set(shape, priorities, number, priority), held);
    if (!held)
        return;
    naive->weight[number] = pow(priority + 1e-5, shape->alpha);
    naive->max = fmax(naive->max, priority);
}

/* Inner nodes are those that are built from the leaves alone, to the bit. */
static void check_build(const struct hd_priorities_shape *shape,
                        const struct hd_priorities *priorities)
{
    const size_t bytes = (size_t)hd_priorities_get_bytes(shape),
                 saved = (size_t)hd_priorities_get_saved_bytes(shape);
    struct hd_priorities *built = open_priorities(shape);
    char message[HD_NUMBERS_MESSAGE];
    memcpy(built, priorities, saved);
    hd_priorities_build(shape, built);
    ck_assert(memcmp(built, priorities, bytes) == 0);
    ck_assert_msg(hd_priorities_check(shape, built, message) == HD_OK, "%s", message);
    hd_free(built);
}

TEST(a_long_life_is_the_naive_one, .runs = SHAPES)
{
    const struct hd_priorities_shape *shape = &shapes[_i];
    static struct naive naive;
    naive = (struct naive){.max = 1};
    struct hd_priorities *priorities = open_priorities(shape);
    for (int64_t step = 0; step < 300; step++) {
        const struct hd_rng rng = hd_rng_make(3, 4, step, 0, 0);
        push_some(shape, &naive, priorities, &rng, 0);
        for (uint32_t i = 0; i < 6; i++)
            set_some(shape, &naive, priorities, &rng, 10 + 3 * i);
        ck_assert_int_eq(priorities->first, naive.first);
        ck_assert_int_eq(priorities->end, naive.end);
        ck_assert_double_eq(priorities->max_priority, naive.max);
        if (step % 20 != 0 || naive.first == naive.end)
            continue;
        check_shares(shape, &naive, priorities);
        check_importance(shape, &naive, priorities);
        check_build(shape, priorities);
    }
    hd_free(priorities);
}

/* Without errors all priorities are 1, and strata are those of a replay without priorities. */
TEST(equal_priorities_are_uniform)
{
    const struct hd_priorities_shape shape = {100, .6};
    struct hd_priorities *priorities = open_priorities(&shape);
    hd_priorities_push(&shape, priorities, 20, 120);
    for (int64_t i = 0; i < 50; i++) {
        const int64_t number = hd_priorities_find(&shape, priorities, ((double)i + .25) / 50);
        ck_assert_int_eq(number % 100, 2 * i);
        ck_assert(hd_priorities_compute_importance(&shape, priorities, number, .4) == 1);
    }
    hd_free(priorities);
}

TEST(what_is_no_priorities_is_told)
{
    const struct hd_priorities_shape shape = {5, .6};
    struct hd_priorities *good = open_priorities(&shape), *bad = open_priorities(&shape);
    char message[HD_NUMBERS_MESSAGE];
    hd_priorities_push(&shape, good, 4, 8);
    ck_assert_int_eq(hd_priorities_check(&shape, good, message), HD_OK);
    const size_t bytes = (size_t)hd_priorities_get_bytes(&shape);
    for (int fault = 0; fault < 8; fault++) {
        memcpy(bad, good, bytes);
        if (fault == 0)
            bad->first = 9;
        if (fault == 1)
            bad->first = 2;
        if (fault == 2)
            bad->end = -1;
        if (fault == 3)
            bad->draws = -1;
        if (fault == 4)
            bad->max_priority = NAN;
        if (fault == 5)
            bad->weight[4] = INFINITY;
        if (fault == 6)
            bad->weight[4] = 0; /* of transition 4, which is held */
        if (fault == 7)
            bad->weight[3] = 1; /* of transition 3, which is not */
        ck_assert_msg(hd_priorities_check(&shape, bad, message) == HD_ERR_FORMAT, "fault %d",
                      fault);
    }
    hd_free(good);
    hd_free(bad);
}

#if HD_CUDA

/* Weights are the CPU's but for the last bits of pow. */
static void check_there(const struct hd_priorities_shape *shape,
                        const struct hd_priorities *priorities, const struct hd_priorities *there)
{
    struct hd_priorities *found = open_priorities(shape);
    device_get(found, there, hd_priorities_get_bytes(shape));
    ck_assert(memcmp(found, priorities, sizeof *found) == 0);
    for (int64_t i = 0; i < shape->capacity; i++)
        ck_assert(fabs(found->weight[i] - priorities->weight[i]) <= 1e-14 * priorities->weight[i]);
    check_build(shape, found);
    hd_free(found);
}

enum { MICRO = 5, LD = 8, BATCH = 3 * MICRO };

/* What a GPU reads. */
struct there {
    struct hd_priorities *priorities;
    float *error;
    int64_t *number, *used, *held;
};

/* Makes a batch of transitions, some of which are no longer held, or there twice, of errors of
 * which one is no number and a few do not count; and sets their priorities on both sides. */
static void set_batch(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                      const struct there *there, const struct hd_rng *rng, uint32_t item)
{
    float error[3 * LD] = {0};
    int64_t number[BATCH], used = BATCH - hd_rng_draw_below(rng, item, 3);
    const struct hd_priorities_errors errors = {there->error, BATCH,         MICRO,
                                                LD,           there->number, there->used};
    for (int64_t r = 0; r < BATCH; r++) {
        float *at = &error[r / MICRO * LD + r % MICRO];
        number[r] = priorities->first - 2 +
                    hd_rng_draw_below(rng, item + 1 + (uint32_t)r, shape->capacity + 4);
        *at = 30 * (float)pow(hd_rng_draw_uniform(rng, item + 50 + (uint32_t)r), 4);
        *at = r == 3 ? NAN : *at;
        if (r < used && r != 3)
            hd_priorities_set(shape, priorities, number[r], (double)*at);
    }
    device_put(there->error, error, sizeof error);
    device_put(there->number, number, sizeof number);
    device_put(there->used, &used, sizeof used);
    ck_assert_int_eq(hd_priorities_set_cuda(shape, there->priorities, &errors, device_stream()),
                     HD_OK);
}

TEST(a_gpu_s_priorities_are_the_cpu_s, .runs = SHAPES, .cuda = true)
{
    const struct hd_priorities_shape *shape = &shapes[_i];
    const struct hd_rng rng = {.key = {3, 9}, .shard = (uint32_t)_i};
    static struct naive naive;
    naive = (struct naive){.max = 1};
    struct hd_priorities *priorities = open_priorities(shape);
    const struct there there = {
        device_make(priorities, hd_priorities_get_bytes(shape)),
        device_make(NULL, 3 * LD * sizeof(float)), device_make(NULL, BATCH * sizeof(int64_t)),
        device_make(NULL, sizeof(int64_t)), device_make(NULL, 2 * sizeof(int64_t))};
    for (uint32_t step = 0; step < 60; step++) {
        push_some(shape, &naive, priorities, &rng, 200 * step);
        device_put(there.held, (int64_t[]){naive.first, naive.end}, 2 * sizeof(int64_t));
        ck_assert_int_eq(hd_priorities_push_cuda(shape, there.priorities, there.held,
                                                 there.held + 1, device_stream()),
                         HD_OK);
        check_there(shape, priorities, there.priorities);
        if (naive.end == 0)
            continue;
        set_batch(shape, priorities, &there, &rng, 200 * step + 10);
        check_there(shape, priorities, there.priorities);
    }
    hd_free(priorities);
}

#endif
