/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler against torch's DistributedSampler, implemented naively here, and what its header
 * promises: every sample once, padding from the start of the permutation, no sample twice,
 * permutations that look random. */
#include "kernels/replay/sampler.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNT = 5000 };

/* Reads the permutation of an epoch off one shard's list. */
static void read_order(const struct hd_sampler *like, int64_t epoch, int64_t *order)
{
    struct hd_sampler one = *like;
    one.shards = 1;
    for (int64_t p = 0; p < one.samples; p++)
        order[p] = hd_sampler_get(&one, epoch, 0, p, NULL);
}

/* Does what DistributedSampler.__iter__ does, with its lists. Returns total_size. */
static int64_t fill_up(const struct hd_sampler *sampler, const int64_t *order, int64_t *indices)
{
    const double n = (double)sampler->samples, replicas = (double)sampler->shards;
    bool cut = sampler->tail == HD_TAIL_DROP && sampler->samples % sampler->shards != 0;
    int64_t num_samples = (int64_t)(cut ? ceil((n - replicas) / replicas) : ceil(n / replicas));
    int64_t total = num_samples * sampler->shards, have = sampler->samples;
    memcpy(indices, order, (size_t)have * sizeof *indices);
    for (; have < total; have++)
        indices[have] = indices[have - sampler->samples];
    return total;
}

/* All lists of an epoch are torch's; each sample is on as many of them as it should. */
static void check_epoch(const struct hd_sampler *sampler, int64_t epoch)
{
    static int64_t order[MAX_COUNT], indices[2 * MAX_COUNT], times[MAX_COUNT];
    memset(times, 0, sizeof times);
    read_order(sampler, epoch, order);
    const int64_t total = fill_up(sampler, order, indices);
    int64_t padded = 0;
    for (int64_t shard = 0; shard < sampler->shards; shard++) {
        const int64_t count = hd_sampler_count(sampler, shard);
        ck_assert_int_eq(count * sampler->shards, total);
        ck_assert_int_eq(count, hd_sampler_count_max(sampler));
        for (int64_t i = 0; i < count; i++) {
            bool padding;
            int64_t sample = hd_sampler_get(sampler, epoch, shard, i, &padding);
            ck_assert_int_eq(sample, indices[shard + i * sampler->shards]);
            padded += padding;
            times[sample] += !padding;
        }
    }
    ck_assert_int_eq(padded, total > sampler->samples ? total - sampler->samples : 0);
    int64_t dealt = 0;
    for (int64_t j = 0; j < sampler->samples; j++) {
        ck_assert_int_le(times[j], 1);
        dealt += times[j];
    }
    ck_assert_int_eq(dealt, total < sampler->samples ? total : sampler->samples);
}

TEST(dealt_as_torch_deals)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 63, 64, 65, 100, 1000, 4097};
    static const int64_t shards[] = {1, 2, 3, 4, 7, 8, 64, 100};
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (size_t b = 0; b < sizeof shards / sizeof *shards; b++)
            for (int how = 0; how < 4; how++) {
                const struct hd_sampler sampler = {.seed = 3 + a,
                                                   .samples = sizes[a],
                                                   .shards = shards[b],
                                                   .shuffle = how & 1,
                                                   .tail = how & 2 ? HD_TAIL_DROP : HD_TAIL_PAD};
                check_epoch(&sampler, 0);
                check_epoch(&sampler, 5);
            }
}

TEST(uneven_lists_hold_every_sample_once)
{
    for (int64_t n = 0; n < 40; n++)
        for (int64_t shards = 1; shards < 12; shards++) {
            const struct hd_sampler sampler = {
                .samples = n, .shards = shards, .shuffle = true, .tail = HD_TAIL_UNEVEN};
            int times[40] = {0};
            int64_t max = 0;
            for (int64_t shard = 0; shard < shards; shard++) {
                int64_t count = hd_sampler_count(&sampler, shard);
                ck_assert(count == n / shards || count == n / shards + 1);
                max = count > max ? count : max;
                for (int64_t i = 0; i < count; i++) {
                    bool padding = true;
                    times[hd_sampler_get(&sampler, 2, shard, i, &padding)]++;
                    ck_assert(!padding);
                }
            }
            ck_assert_int_eq(max, hd_sampler_count_max(&sampler));
            for (int64_t j = 0; j < n; j++)
                ck_assert_int_eq(times[j], 1);
        }
}

TEST(without_shuffling_in_order)
{
    const struct hd_sampler sampler = {.samples = 5, .shards = 2};
    static const int64_t lists[2][3] = {{0, 2, 4}, {1, 3, 0}};
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t i = 0; i < 6; i++) {
            bool padding;
            ck_assert_int_eq(hd_sampler_get(&sampler, epoch, i % 2, i / 2, &padding),
                             lists[i % 2][i / 2]);
            ck_assert_int_eq(padding, i == 5);
        }
}

TEST(orders_differ_by_seed_and_epoch_alone)
{
    struct hd_sampler a = {.seed = 1, .samples = 1000, .shards = 2, .shuffle = true}, b = a;
    static int64_t first[1000], second[1000];
    read_order(&a, 0, first);
    b.shards = 7;
    read_order(&b, 0, second);
    ck_assert_mem_eq(first, second, sizeof first);
    int same_epoch = 0, same_seed = 0;
    read_order(&a, 1, second);
    for (int i = 0; i < 1000; i++)
        same_epoch += first[i] == second[i];
    b.seed = 2;
    read_order(&b, 0, second);
    for (int i = 0; i < 1000; i++)
        same_seed += first[i] == second[i];
    /* Two random permutations agree in one entry on average, and in more than 8 once in a
     * million. */
    ck_assert_int_le(same_epoch, 8);
    ck_assert_int_le(same_seed, 8);
}

/* Returns sum (observed - expected)^2 / expected of n equally likely outcomes. */
static double chi_square(const int *times, int n)
{
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++)
        total += times[i];
    for (int i = 0; i < n; i++)
        sum += pow(times[i] - total / n, 2) / (total / n);
    return sum;
}

/* Returns a bound that a chi-square with so many degrees of freedom exceeds about once in 10^5
 * (Wilson and Hilferty 1931). */
static double bound(int freedom)
{
    const double v = 2.0 / (9.0 * freedom);
    return freedom * pow(1 - v + 4.26 * sqrt(v), 3);
}

/* All permutations of 2 to 5 samples are equally frequent. */
TEST(short_orders_are_equally_likely)
{
    for (int n = 2; n <= 5; n++) {
        const int epochs = 24000;
        int times[625 * 5] = {0}, seen[120], orders = 0, factorial = 1;
        for (int i = 2; i <= n; i++)
            factorial *= i;
        const struct hd_sampler sampler = {.seed = 9, .samples = n, .shards = 1, .shuffle = true};
        for (int epoch = 0; epoch < epochs; epoch++) {
            int code = 0;
            for (int i = 0; i < n; i++)
                code = code * n + (int)hd_sampler_get(&sampler, epoch, 0, i, NULL);
            times[code]++;
        }
        for (int code = 0; code < 3125; code++)
            if (times[code]) {
                ck_assert_int_lt(orders, 120);
                seen[orders++] = times[code];
            }
        ck_assert_int_eq(orders, factorial);
        ck_assert_double_lt(chi_square(seen, orders), bound(orders - 1));
    }
}

/* In longer ones, every sample is equally frequent at any position and after any other. */
TEST(long_orders_look_random)
{
    static const int sizes[] = {6, 16, 17, 31, 50};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int n = sizes[s];
        static int places[2500], pairs[2500];
        memset(places, 0, sizeof places);
        memset(pairs, 0, sizeof pairs);
        const struct hd_sampler sampler = {.seed = 4, .samples = n, .shards = 1, .shuffle = true};
        for (int epoch = 0; epoch < 2000; epoch++) {
            int before = -1;
            for (int i = 0; i < n; i++) {
                int sample = (int)hd_sampler_get(&sampler, epoch, 0, i, NULL);
                places[i * n + sample]++;
                if (before >= 0) /* of n - 1 others, those behind it move up */
                    pairs[before * (n - 1) + sample - (sample > before)]++;
                before = sample;
            }
        }
        ck_assert_double_lt(chi_square(places, n * n), bound(n * n - 1));
        ck_assert_double_lt(chi_square(pairs, n * (n - 1)), bound(n * (n - 1) - 1));
    }
}

TEST(large_sets)
{
    const struct hd_sampler sampler = {
        .seed = 1, .samples = (INT64_C(1) << 40) + 3, .shards = 3, .shuffle = true};
    double mean = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t sample = hd_sampler_get(&sampler, 1, 2, i * 100000007, NULL);
        ck_assert(sample >= 0 && sample < sampler.samples);
        mean += (double)sample / (double)sampler.samples / 1000;
    }
    ck_assert_double_lt(fabs(mean - .5), 4.5 * sqrt(1.0 / 12 / 1000));
}
