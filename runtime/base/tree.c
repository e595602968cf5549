/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/tree.h"

#include <stdio.h>

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

bool hd_tree_block_allowed(int64_t shards, int64_t ranks)
{
    if (ranks < 1 || shards < ranks || shards % ranks != 0)
        return false;
    int64_t count = shards / ranks;
    for (int64_t r = 0; r < ranks; r++)
        if (!is_node(shards, r * count, count))
            return false;
    return true;
}

void hd_tree_allowed_text(int64_t shards, char *text, size_t bytes)
{
    size_t used = 0;
    if (bytes > 0)
        text[0] = '\0';
    for (int64_t ranks = 1; ranks <= shards && used < bytes; ranks++)
        if (hd_tree_block_allowed(shards, ranks))
            used += (size_t)snprintf(text + used, bytes - used, used > 0 ? ", %lld" : "%lld",
                                     (long long)ranks);
}

int hd_tree_levels(int64_t n)
{
    int levels = 1;
    for (; n > 1; n -= n / 2)
        levels++;
    return levels;
}

struct fold {
    void *(*leaf)(void *arg, int64_t i, int level);
    void *(*combine)(void *arg, int level, void *left, void *right);
    void *arg;
};

static void *fold_node(const struct fold *fold, int64_t lo, int64_t n, int level)
{
    if (n == 1)
        return fold->leaf(fold->arg, lo, level);
    void *left = fold_node(fold, lo, n / 2, level);
    void *right = fold_node(fold, lo + n / 2, n - n / 2, level + 1);
    return fold->combine(fold->arg, level, left, right);
}

void *hd_tree_fold(int64_t lo, int64_t hi, void *(*leaf)(void *arg, int64_t i, int level),
                   void *(*combine)(void *arg, int level, void *left, void *right), void *arg)
{
    const struct fold fold = {leaf, combine, arg};
    return fold_node(&fold, lo, hi - lo, 0);
}
