/* SPDX-License-Identifier: Apache-2.0 */
/* Means whose sums are rounded (struct hd_rounding). A packed vector is the rounded blocks of a
 * bucket side by side, then the number of samples as a float. It is added block by block: a node is
 * the sum of its two children as floats, rounded, and a leaf is the rounded sum of a shard. So its
 * bits depend neither on who adds it nor on how the vector is cut in slices of whole blocks. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/tree.h"
#include "runtime/engine/collective/collective_internal.h"

#include <math.h>
#include <string.h>

/* -- Sizes ------------------------------------------------------------------------------------- */

static int64_t count_elements(const struct hd_collective *c)
{
    int64_t lo, hi;
    hd_spec_get_bucket(c->in_spec, c->bucket, &lo, &hi);
    return hi - lo;
}

static int64_t count_blocks(const struct hd_collective *c)
{
    return (count_elements(c) + HD_BLOCK - 1) / HD_BLOCK;
}

int64_t hd_rounded_get_unit_bytes(const struct hd_collective *c)
{
    return hd_rounding_get_bytes(c->rounding, HD_BLOCK);
}

/* Returns where the number of samples is, counted in floats. */
static int64_t find_count(const struct hd_collective *c)
{
    const int64_t blocks = count_blocks(c), last = count_elements(c) - (blocks - 1) * HD_BLOCK;
    const int64_t bytes =
        (blocks - 1) * hd_rounded_get_unit_bytes(c) + hd_rounding_get_bytes(c->rounding, last);
    return (bytes + (int64_t)sizeof(float) - 1) / (int64_t)sizeof(float);
}

int64_t hd_rounded_get_vector_bytes(const struct hd_collective *c)
{
    return (find_count(c) + 1) * (int64_t)sizeof(float);
}

/* After a vector and a pointer for each rank: two blocks as floats, and a rounded one in every
 * level of the tree. */
static int64_t find_work(const struct hd_collective *c, int ranks)
{
    return hd_align_up(hd_rounded_get_vector_bytes(c)) +
           hd_align_up(ranks * (int64_t)sizeof(void *));
}

int64_t hd_rounded_get_scratch_bytes(const struct hd_collective *c, int ranks)
{
    const int operands = c->n_in > ranks ? c->n_in : ranks;
    return find_work(c, ranks) + 2 * HD_BLOCK * (int64_t)sizeof(float) +
           hd_align_up(hd_rounded_get_unit_bytes(c)) * hd_tree_count_levels(operands);
}

/* -- A block ----------------------------------------------------------------------------------- */

/* The sum of a block: over this rank's instances, or over packed vectors. */
struct block_sum {
    const struct hd_collective_round *round;
    const void *const *vectors; /* NULL: instances */
    int64_t unit_bytes, block, n;
    float *floats, *other; /* [HD_BLOCK] each */
    char *levels;          /* blocks for the levels of the tree but the first */
    char *to;              /* where the sum goes: level 0 */
};

static struct block_sum make_block_sum(const struct hd_collective_round *round,
                                       const void *const *vectors, void *scratch)
{
    const struct hd_collective *c = &round->collective;
    float *floats = (float *)((char *)scratch + find_work(c, round->session->options.ranks));
    return (struct block_sum){.round = round,
                              .vectors = vectors,
                              .unit_bytes = hd_rounded_get_unit_bytes(c),
                              .floats = floats,
                              .other = floats + HD_BLOCK,
                              .levels = (char *)(floats + 2 * HD_BLOCK)};
}

static void *get_level(const struct block_sum *sum, int level)
{
    return level == 0 ? sum->to : sum->levels + (level - 1) * hd_align_up(sum->unit_bytes);
}

/* Rounds the floats, to which the residual of instance i is added, and keeps what that takes; what
 * is not finite is lost. */
static void round_with_residual(const struct block_sum *sum, float *residual, void *to)
{
    const struct hd_rounding *rounding = sum->round->collective.rounding;
    for (int64_t i = 0; i < sum->n; i++)
        sum->floats[i] += residual[i];
    rounding->encode(sum->floats, sum->n, to);
    rounding->decode(to, sum->n, sum->other);
    for (int64_t i = 0; i < sum->n; i++) {
        const float lost = sum->floats[i] - sum->other[i];
        residual[i] = isfinite(lost) ? lost : 0;
    }
}

static void *round_leaf(void *arg, int64_t i, int level)
{
    const struct block_sum *sum = arg;
    const struct hd_collective *c = &sum->round->collective;
    if (sum->vectors)
        return (char *)sum->vectors[i] + sum->block * sum->unit_bytes;
    const struct hd_spec *spec = c->in_spec;
    const float *operands = sum->round->memory[i];
    int64_t lo, hi;
    hd_spec_get_bucket(spec, c->bucket, &lo, &hi);
    lo += sum->block * HD_BLOCK;
    hd_tree_add(1, &operands, spec->partials, spec->bytes / spec->partials / (int64_t)sizeof(float),
                lo, lo + sum->n, sum->floats);
    if (c->residuals)
        round_with_residual(sum, (float *)sum->round->memory[c->n_in + 1 + i] + lo,
                            get_level(sum, level));
    else
        c->rounding->encode(sum->floats, sum->n, get_level(sum, level));
    return get_level(sum, level);
}

static void *round_node(void *arg, int level, void *left, void *right)
{
    const struct block_sum *sum = arg;
    const struct hd_rounding *rounding = sum->round->collective.rounding;
    rounding->decode(left, sum->n, sum->floats);
    rounding->decode(right, sum->n, sum->other);
    for (int64_t i = 0; i < sum->n; i++)
        sum->floats[i] += sum->other[i];
    rounding->encode(sum->floats, sum->n, get_level(sum, level));
    return get_level(sum, level);
}

/* Selects a block, of which the last one may be shorter. */
static void select_block(struct block_sum *sum, int64_t block, void *to)
{
    const int64_t left = count_elements(&sum->round->collective) - block * HD_BLOCK;
    sum->block = block;
    sum->n = left < HD_BLOCK ? left : HD_BLOCK;
    sum->to = (char *)to + block * sum->unit_bytes;
}

static void add_block(struct block_sum *sum, int operands, int64_t block, void *to)
{
    select_block(sum, block, to);
    const void *root = hd_tree_reduce(0, operands, round_leaf, round_node, sum);
    if (root != sum->to)
        memcpy(sum->to, root,
               (size_t)hd_rounding_get_bytes(sum->round->collective.rounding, sum->n));
}

/* -- Vectors ----------------------------------------------------------------------------------- */

void hd_rounded_add_instances(const struct hd_collective_round *round, void *scratch, void *to)
{
    const struct hd_collective *c = &round->collective;
    struct block_sum sum = make_block_sum(round, NULL, scratch);
    for (int64_t block = 0; block < count_blocks(c); block++)
        add_block(&sum, c->n_in, block, to);
    ((float *)to)[find_count(c)] =
        hd_weights_add(c->in_spec, c->bucket, (const void *const *)round->memory, c->n_in);
}

void hd_rounded_add(const struct hd_collective_round *round, int n, const void *const *vectors,
                    int64_t lo, int64_t hi, void *scratch, void *to)
{
    const struct hd_collective *c = &round->collective;
    struct block_sum sum = make_block_sum(round, vectors, scratch);
    const int64_t count = find_count(c), at = count * (int64_t)sizeof(float);
    for (int64_t block = lo / sum.unit_bytes;
         block < count_blocks(c) && block * sum.unit_bytes < hi; block++)
        add_block(&sum, n, block, to);
    if (lo <= at && at < hi)
        hd_tree_add(n, (const float *const *)vectors, 1, 0, count, count + 1, (float *)to + count);
}

void hd_rounded_unpack(const struct hd_collective_round *round, const void *vector, void *scratch)
{
    const struct hd_collective *c = &round->collective;
    const float count = ((const float *)vector)[find_count(c)], divisor = count > 0 ? count : 1;
    struct block_sum sum = make_block_sum(round, &vector, scratch);
    int64_t lo, hi;
    hd_spec_get_bucket(c->in_spec, c->bucket, &lo, &hi);
    for (int64_t block = 0; block < count_blocks(c); block++) {
        select_block(&sum, block, (void *)vector);
        c->rounding->decode(sum.to, sum.n, sum.floats);
        for (int64_t i = 0; i < sum.n; i++)
            sum.floats[i] /= divisor;
        c->rounding->encode(sum.floats, sum.n, sum.levels);
        c->rounding->decode(sum.levels, sum.n, (float *)c->out.data + lo + block * HD_BLOCK);
    }
    *c->in_spec->type->reduction->count(c->out_spec, c->bucket, c->out.data) = count;
}
