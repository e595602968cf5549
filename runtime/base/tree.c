/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/tree.h"

#include <stdio.h>
#include <string.h>

static bool is_node(int64_t shards, int64_t first, int64_t count)
{
    int64_t lo = 0, n = shards;
    while (n > count) {
        int64_t left = n / 2;
        if (first >= lo + left) {
            lo += left;
            n -= left;
        } else {
            n = left;
        }
    }
    return lo == first && n == count;
}

bool hd_tree_is_block_allowed(int64_t shards, int64_t ranks)
{
    if (ranks < 1 || shards < ranks || shards % ranks != 0)
        return false;
    int64_t count = shards / ranks;
    for (int64_t r = 0; r < ranks; r++)
        if (!is_node(shards, r * count, count))
            return false;
    return true;
}

void hd_tree_format_allowed(int64_t shards, char *text, size_t bytes)
{
    size_t used = 0;
    if (bytes > 0)
        text[0] = '\0';
    for (int64_t ranks = 1; ranks <= shards && used < bytes; ranks++)
        if (hd_tree_is_block_allowed(shards, ranks))
            used += (size_t)snprintf(text + used, bytes - used, used > 0 ? ", %lld" : "%lld",
                                     (long long)ranks);
}

int hd_tree_count_levels(int64_t n)
{
    int levels = 1;
    for (; n > 1; n -= n / 2)
        levels++;
    return levels;
}

struct reduce {
    void *(*leaf)(void *arg, int64_t i, int level);
    void *(*combine)(void *arg, int level, void *left, void *right);
    void *arg;
};

static void *reduce_node(const struct reduce *reduce, int64_t lo, int64_t n, int level)
{
    if (n == 1)
        return reduce->leaf(reduce->arg, lo, level);
    void *left = reduce_node(reduce, lo, n / 2, level);
    void *right = reduce_node(reduce, lo + n / 2, n - n / 2, level + 1);
    return reduce->combine(reduce->arg, level, left, right);
}

void *hd_tree_reduce(int64_t lo, int64_t hi, void *(*leaf)(void *arg, int64_t i, int level),
                     void *(*combine)(void *arg, int level, void *left, void *right), void *arg)
{
    const struct reduce reduce = {leaf, combine, arg};
    return reduce_node(&reduce, lo, hi - lo, 0);
}

/* -- Adding arrays ----------------------------------------------------------------------------- */

enum { TILE = 512, LEVELS_MAX = 64 }; /* floats at a time; levels that no tree here exceeds */

struct tile {
    const float *const *group;
    int64_t members, stride;
    int64_t at, n; /* elements [at, at + n) */
    float *sum;    /* of level 0 */
    float rows[LEVELS_MAX][TILE];
};

static void add_to(float *restrict sum, const float *restrict term, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += term[i];
}

static void add_two(float *restrict sum, const float *restrict left, const float *restrict right,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = left[i] + right[i];
}

/* `left` is the level's row or a term left where it was, as in hd_tree_reduce. */
static const float *add(struct tile *tile, int level, const float *left, const float *right)
{
    float *row = level == 0 ? tile->sum : tile->rows[level];
    if (left == row)
        add_to(row, right, tile->n);
    else
        add_two(row, left, right, tile->n);
    return row;
}

static const float *add_members(struct tile *tile, int64_t group, int64_t lo, int64_t n, int level)
{
    if (n == 1)
        return tile->group[group] + lo * tile->stride + tile->at;
    const float *left = add_members(tile, group, lo, n / 2, level);
    return add(tile, level, left, add_members(tile, group, lo + n / 2, n - n / 2, level + 1));
}

static const float *add_groups(struct tile *tile, int64_t lo, int64_t n, int level)
{
    if (n == 1)
        return add_members(tile, lo, 0, tile->members, level);
    const float *left = add_groups(tile, lo, n / 2, level);
    return add(tile, level, left, add_groups(tile, lo + n / 2, n - n / 2, level + 1));
}

void hd_tree_add(int64_t groups, const float *const *group, int64_t members, int64_t stride,
                 int64_t lo, int64_t hi, float *sum)
{
    struct tile tile; /* its rows need no initial value */
    tile.group = group;
    tile.members = members;
    tile.stride = stride;
    for (tile.at = lo; tile.at < hi; tile.at += TILE) {
        tile.n = hi - tile.at < TILE ? hi - tile.at : TILE;
        tile.sum = sum + (tile.at - lo);
        const float *result = add_groups(&tile, 0, groups, 0);
        if (result != tile.sum)
            memcpy(tile.sum, result, (size_t)tile.n * sizeof(float));
    }
}
