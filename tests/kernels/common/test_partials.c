/* SPDX-License-Identifier: Apache-2.0 */
/* Partials added in tree order by a stack, as GPUs do it: bitwise identical to hd_tree_add, for
 * many numbers of groups and of partials in each, for ranges that begin and end anywhere, and for
 * any alignment. */
#include "kernels/common/partials.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tests/kernels/common/device.h"

#include <string.h>

enum { MAX_PARTIALS = 64, ELEMENTS = 2600, STRIDE = ELEMENTS + 24, COUNT = ELEMENTS + 8 };

static const int groupings[][2] = {{1, 1}, {1, 2}, {1, 3}, {1, 5},  {1, 8},  {1, 13}, {2, 1},
                                   {3, 1}, {5, 1}, {8, 1}, {13, 1}, {2, 4},  {4, 2},  {3, 5},
                                   {5, 3}, {8, 8}, {5, 9}, {3, 17}, {1, 64}, {64, 1}};
enum { GROUPINGS = sizeof groupings / sizeof *groupings };

/* Fills partial l of all from l * STRIDE on, with its number of samples COUNT floats further.
 * Magnitudes differ, so that any other order of addition shows. */
static void fill_partials(float *partials, bool samples)
{
    const struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    for (uint32_t i = 0; i < MAX_PARTIALS * STRIDE; i++)
        partials[i] = (float)(hd_rng_draw_uniform(&rng, 2 * i) - .5) *
                      ldexpf(1, (int)hd_rng_draw_below(&rng, 2 * i + 1, 20));
    for (int l = 0; l < MAX_PARTIALS; l++)
        partials[l * STRIDE + COUNT] = samples ? (float)(l % 5 * 3 + 1) / 3 : 0;
}

static void wanted_sum(const float *partials, const int *grouping, int64_t lo, int64_t hi,
                       float *sum)
{
    const float *group[MAX_PARTIALS];
    for (int g = 0; g < grouping[0]; g++)
        group[g] = partials + g * grouping[1] * STRIDE;
    hd_tree_add(grouping[0], group, grouping[1], STRIDE, lo, hi, sum);
}

TEST(a_stack_adds_in_tree_order)
{
    static float partials[MAX_PARTIALS * STRIDE];
    fill_partials(partials, true);
    for (int k = 0; k < GROUPINGS; k++) {
        const int groups = groupings[k][0], members = groupings[k][1];
        float stack[MAX_PARTIALS], wanted;
        int waiting = 0;
        for (int g = 0; g < groups; g++)
            for (int m = 0; m < members; m++) {
                int sums = hd_tree_count_sums(m, members);
                if (m + 1 == members)
                    sums += hd_tree_count_sums(g, groups);
                stack[waiting++] = partials[(g * members + m) * STRIDE];
                for (; sums > 0; sums--, waiting--)
                    stack[waiting - 2] += stack[waiting - 1];
            }
        wanted_sum(partials, groupings[k], 0, 1, &wanted);
        ck_assert_int_eq(waiting, 1);
        ck_assert(memcmp(stack, &wanted, sizeof wanted) == 0);
    }
}

#if HD_CUDA

/* The partials of a case, on the host and on the device, from the same element on. */
struct partials {
    float here[MAX_PARTIALS * STRIDE];
    const float *there;
    struct hd_partials group[MAX_PARTIALS];
};

static struct partials *make_partials(bool samples)
{
    struct partials *partials = test_alloc(1, sizeof *partials);
    fill_partials(partials->here, samples);
    partials->there = device_make(partials->here, sizeof partials->here);
    return partials;
}

/* Returns the device's groups from element `first` on. */
static const struct hd_partials *group_partials(struct partials *partials, const int *grouping,
                                                int first)
{
    for (int g = 0; g < grouping[0]; g++) {
        const float *floats = partials->there + g * grouping[1] * STRIDE + first;
        partials->group[g] =
            (struct hd_partials){floats, floats + COUNT - first, grouping[1], STRIDE};
    }
    return partials->group;
}

static float wanted_count(const struct partials *partials, const int *grouping)
{
    float count;
    wanted_sum(partials->here, grouping, COUNT, COUNT + 1, &count);
    return count;
}

/* Checks elements [lo, hi) of a result that begins at `first`, and that others are untouched. */
static void check_result(const struct partials *partials, const int *grouping, int first,
                         int64_t lo, int64_t hi, float divisor, const float *to)
{
    static float found[ELEMENTS], wanted[ELEMENTS];
    device_get(found, to, sizeof found);
    memset(wanted, 0xFF, sizeof wanted);
    wanted_sum(partials->here, grouping, first + lo, first + hi, wanted + lo);
    for (int64_t i = lo; i < hi; i++)
        wanted[i] /= divisor;
    ck_assert_msg(memcmp(found, wanted, sizeof wanted) == 0,
                  "%d groups of %d, from %d on, elements %lld to %lld", grouping[0], grouping[1],
                  first, (long long)lo, (long long)hi);
}

TEST(cuda_sums_are_hd_tree_add_s, .runs = 5, .cuda = true)
{
    static const int64_t ranges[][2] = {{0, ELEMENTS}, {4, 2051}, {13, 2570}, {1024, 1028}, {7, 8}};
    struct partials *partials = make_partials(true);
    const int64_t *range = ranges[_i];
    for (int k = 0; k < GROUPINGS; k++)
        for (int first = 0; first < 2; first++) {
            float *to = device_make(NULL, ELEMENTS * sizeof *to);
            float *count = device_make(NULL, sizeof *count), found, is;
            const struct hd_partials *group = group_partials(partials, groupings[k], first);
            ck_assert_int_eq(hd_partials_mean_cuda(groupings[k][0], group, k % 2, range[0],
                                                   range[1], to, count, device_stream()),
                             HD_OK);
            is = wanted_count(partials, groupings[k]);
            check_result(partials, groupings[k], first, range[0], range[1], k % 2 ? is : 1, to);
            device_get(&found, count, sizeof found);
            ck_assert(memcmp(&found, &is, sizeof is) == 0);
        }
}

/* The distance of these partials prevents reading four elements at a time. */
TEST(cuda_odd_strides, .cuda = true)
{
    enum { N = 5, ODD = 101 };
    float here[N * ODD], found[ODD], wanted[ODD];
    for (int i = 0; i < N * ODD; i++)
        here[i] = ldexpf((float)(i % 13), i % 17);
    const struct hd_partials group = {device_make(here, sizeof here), NULL, N, ODD};
    const float *floats = here;
    float *to = device_make(NULL, sizeof found);
    ck_assert_int_eq(hd_partials_mean_cuda(1, &group, true, 0, ODD, to, NULL, device_stream()),
                     HD_OK);
    device_get(found, to, sizeof found);
    hd_tree_add(1, &floats, N, ODD, 0, ODD, wanted);
    ck_assert(memcmp(found, wanted, sizeof wanted) == 0);
}

/* Sums are not divided if there are no samples or no counts. */
TEST(cuda_nothing_to_divide_by, .cuda = true)
{
    static const int grouping[] = {2, 3};
    struct partials *partials = make_partials(false);
    for (int known = 0; known < 2; known++) {
        float *to = device_make(NULL, ELEMENTS * sizeof *to);
        float *count = device_make(NULL, sizeof *count), found;
        group_partials(partials, grouping, 0);
        for (int g = 0; g < 2 && !known; g++)
            partials->group[g].counts = NULL;
        ck_assert_int_eq(hd_partials_mean_cuda(2, partials->group, true, 0, ELEMENTS, to, count,
                                               device_stream()),
                         HD_OK);
        check_result(partials, grouping, 0, 0, ELEMENTS, 1, to);
        device_get(&found, count, sizeof found);
        ck_assert(found == 0);
    }
}

TEST(cuda_in_place_of_a_partial, .cuda = true)
{
    static const int grouping[] = {1, 7};
    struct partials *partials = make_partials(true);
    float *to = (float *)partials->there + 2 * STRIDE;
    static float found[ELEMENTS], wanted[ELEMENTS];
    const float count = wanted_count(partials, grouping);
    ck_assert_int_eq(hd_partials_mean_cuda(1, group_partials(partials, grouping, 0), true, 0,
                                           ELEMENTS, to, NULL, device_stream()),
                     HD_OK);
    device_get(found, to, sizeof found);
    wanted_sum(partials->here, grouping, 0, ELEMENTS, wanted);
    for (int i = 0; i < ELEMENTS; i++)
        wanted[i] /= count;
    ck_assert(memcmp(found, wanted, sizeof wanted) == 0);
}

TEST(cuda_the_most_leaves_and_more, .cuda = true)
{
    enum { GROUPS = HD_PARTIALS_GROUPS, MEMBERS = HD_PARTIALS_MEMBERS, N = 8 };
    struct hd_partials group[GROUPS + 1];
    float *here = test_alloc(GROUPS * MEMBERS * N, sizeof *here), found[N], wanted[N];
    const float *groups[GROUPS];
    for (int i = 0; i < GROUPS * MEMBERS * N; i++)
        here[i] = (float)(i % 1013) * ldexpf(1, i % 11) - 1000;
    const float *there = device_make(here, GROUPS * MEMBERS * N * sizeof *here);
    for (int g = 0; g <= GROUPS; g++)
        group[g] = (struct hd_partials){there + g % GROUPS * MEMBERS * N, NULL, MEMBERS, N};
    for (int g = 0; g < GROUPS; g++)
        groups[g] = here + g * MEMBERS * N;
    float *to = device_make(NULL, sizeof found);
    ck_assert_int_eq(hd_partials_mean_cuda(GROUPS, group, true, 0, N, to, NULL, device_stream()),
                     HD_OK);
    device_get(found, to, sizeof found);
    hd_tree_add(GROUPS, groups, MEMBERS, N, 0, N, wanted);
    ck_assert(memcmp(found, wanted, sizeof wanted) == 0);
    ck_assert_int_eq(
        hd_partials_mean_cuda(GROUPS + 1, group, true, 0, N, to, NULL, device_stream()),
        HD_ERR_UNSUPPORTED);
    group[1].n--;
    ck_assert_int_eq(hd_partials_mean_cuda(2, group, true, 0, N, to, NULL, device_stream()),
                     HD_ERR_UNSUPPORTED);
    group[0].n = MEMBERS + 1;
    ck_assert_int_eq(hd_partials_mean_cuda(1, group, true, 0, N, to, NULL, device_stream()),
                     HD_ERR_UNSUPPORTED);
}

#endif
