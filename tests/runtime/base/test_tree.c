/* SPDX-License-Identifier: Apache-2.0 */
/* The tree's shape is a function of the number of leaves; blocks of ranks are nodes of it. */
#include "runtime/base/tree.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 4096, LEVELS = 16 };

/* Sums are written as expressions: "((0+1)+(2+3))". */
struct writer {
    char level[LEVELS][TEXT];
    int64_t block; /* leaves are whole blocks of this many, written as their own trees */
};

static void *write_leaf(void *arg, int64_t i, int level)
{
    struct writer *writer = arg;
    ck_assert_int_lt(level, LEVELS);
    sprintf(writer->level[level], "%d", (int)i);
    return writer->level[level];
}

static void *write_sum(void *arg, int level, void *left, void *right)
{
    struct writer *writer = arg;
    char sum[2 * TEXT];
    ck_assert_ptr_ne(right, writer->level[level]);
    snprintf(sum, sizeof sum, "(%s+%s)", (char *)left, (char *)right);
    ck_assert_uint_lt(strlen(sum), TEXT);
    strcpy(writer->level[level], sum);
    return writer->level[level];
}

static void *write_block(void *arg, int64_t rank, int level)
{
    struct writer *writer = arg;
    struct writer *inner = calloc(1, sizeof *inner);
    char *sum = hd_tree_reduce(rank * writer->block, (rank + 1) * writer->block, write_leaf,
                               write_sum, inner);
    strcpy(writer->level[level], sum);
    free(inner);
    return writer->level[level];
}

static struct writer writer, outer;

TEST(shapes)
{
    ck_assert_str_eq(hd_tree_reduce(0, 1, write_leaf, write_sum, &writer), "0");
    ck_assert_str_eq(hd_tree_reduce(0, 2, write_leaf, write_sum, &writer), "(0+1)");
    ck_assert_str_eq(hd_tree_reduce(0, 3, write_leaf, write_sum, &writer), "(0+(1+2))");
    ck_assert_str_eq(hd_tree_reduce(0, 4, write_leaf, write_sum, &writer), "((0+1)+(2+3))");
    ck_assert_str_eq(hd_tree_reduce(0, 6, write_leaf, write_sum, &writer), "((0+(1+2))+(3+(4+5)))");
    ck_assert_str_eq(hd_tree_reduce(5, 7, write_leaf, write_sum, &writer), "(5+6)");
}

TEST(allowed_ranks)
{
    char text[256];
    hd_tree_format_allowed(1, text, sizeof text);
    ck_assert_str_eq(text, "1");
    hd_tree_format_allowed(4, text, sizeof text);
    ck_assert_str_eq(text, "1, 2, 4");
    hd_tree_format_allowed(6, text, sizeof text);
    ck_assert_str_eq(text, "1, 2, 6");
    hd_tree_format_allowed(12, text, sizeof text);
    ck_assert_str_eq(text, "1, 2, 4, 12");
    hd_tree_format_allowed(9, text, sizeof text);
    ck_assert_str_eq(text, "1, 9");
    for (int64_t shards = 1; shards <= 64; shards++)
        ck_assert(hd_tree_is_block_allowed(shards, shards) && hd_tree_is_block_allowed(shards, 1));
    ck_assert(!hd_tree_is_block_allowed(4, 0));
    ck_assert(!hd_tree_is_block_allowed(4, -1));
    ck_assert(!hd_tree_is_block_allowed(4, 8));
    ck_assert(!hd_tree_is_block_allowed(4, 3));
    ck_assert(!hd_tree_is_block_allowed(0, 0));
    char tiny[4];
    hd_tree_format_allowed(64, tiny, sizeof tiny);
    ck_assert_uint_eq(strlen(tiny), 3);
}

/* This makes results independent of the number of ranks. */
TEST(ranks_keep_the_expression)
{
    int pairs = 0;
    for (int64_t shards = 1; shards <= 48; shards++)
        for (int64_t ranks = 1; ranks <= shards; ranks++) {
            if (shards % ranks != 0)
                continue;
            const char *whole = hd_tree_reduce(0, shards, write_leaf, write_sum, &writer);
            outer.block = shards / ranks;
            const char *split = hd_tree_reduce(0, ranks, write_block, write_sum, &outer);
            ck_assert_int_eq(strcmp(whole, split) == 0, hd_tree_is_block_allowed(shards, ranks));
            pairs++;
        }
    ck_assert_int_gt(pairs, 150);
}

struct depth {
    int deepest;
};

static void *see_leaf(void *arg, int64_t i, int level)
{
    (void)i;
    struct depth *depth = arg;
    depth->deepest = level > depth->deepest ? level : depth->deepest;
    return arg;
}

static void *see_node(void *arg, int level, void *left, void *right)
{
    (void)left;
    (void)right;
    return see_leaf(arg, 0, level);
}

TEST(levels_suffice)
{
    for (int64_t n = 1; n < 300; n++) {
        struct depth depth = {0};
        hd_tree_reduce(0, n, see_leaf, see_node, &depth);
        ck_assert_int_eq(depth.deepest + 1, hd_tree_count_levels(n));
    }
}

/* -- Adding arrays ----------------------------------------------------------------------------- */

enum { GROUPS = 7, MEMBERS = 5, ELEMENTS = 1300 };

static float node(const float *terms, int64_t stride, int64_t lo, int64_t hi)
{
    if (hi - lo == 1)
        return terms[lo * stride];
    int64_t middle = lo + (hi - lo) / 2;
    return node(terms, stride, lo, middle) + node(terms, stride, middle, hi);
}

/* Every number of groups and members, ranges that begin and end anywhere; magnitudes differ, so
 * that any other order shows. */
TEST(arrays_are_added_in_tree_order)
{
    static float terms[GROUPS][MEMBERS][ELEMENTS], sum[ELEMENTS + 2];
    const float *group[GROUPS];
    srand(1);
    for (int g = 0; g < GROUPS; g++) {
        group[g] = terms[g][0];
        for (int m = 0; m < MEMBERS; m++)
            for (int i = 0; i < ELEMENTS; i++)
                terms[g][m][i] = (float)rand() * (rand() % 2 ? 1e-3f : -1.0f);
    }
    for (int groups = 1; groups <= GROUPS; groups++)
        for (int members = 1; members <= MEMBERS; members++) {
            int lo = 13 * groups, hi = ELEMENTS - 71 * members;
            memset(sum, 0, sizeof sum);
            hd_tree_add(groups, group, members, ELEMENTS, lo, hi, sum + 1);
            ck_assert(sum[0] == 0 && sum[hi - lo + 1] == 0);
            for (int i = lo; i < hi; i++) {
                float inner[GROUPS];
                for (int g = 0; g < groups; g++)
                    inner[g] = node(&terms[g][0][i], ELEMENTS, 0, members);
                float expected = node(inner, 1, 0, groups);
                ck_assert(memcmp(&expected, &sum[1 + i - lo], sizeof expected) == 0);
            }
        }
}
