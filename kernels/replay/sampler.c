/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay/sampler.h"

#include "runtime/base/rng.h"

/* -- The order --------------------------------------------------------------------------------- */
/* A Feistel network permutes the numbers of w bits: in turns, one half is changed by a random
 * function of the other, which can be undone. Numbers beyond n are permuted again until one of 0 …
 * n - 1 comes out ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains",
 * CT-RSA 2002), which again is a permutation. */

/* More rounds than the four that suffice if few entries are seen of many (Luby and Rackoff, "How to
 * construct pseudorandom permutations", 1988), and numbers of at least six bits: short permutations
 * are seen whole, and halves of one or two bits would not make all of them equally likely. */
enum { ROUNDS = 8, LEAST_BITS = 6, MOST_BITS = 62 };

static const uint64_t STREAM = 0x73616d706c657221; /* "sampler!" */

struct halves {
    int low_bits;
    uint64_t low, high; /* masks of the halves */
};

static struct halves split(int64_t n)
{
    int bits = LEAST_BITS;
    while (bits < MOST_BITS && ((int64_t)1 << bits) < n)
        bits++;
    const int low = bits / 2;
    return (struct halves){
        .low_bits = low,
        .low = ((uint64_t)1 << low) - 1,
        .high = ((uint64_t)1 << (bits - low)) - 1,
    };
}

static uint64_t permute(struct hd_rng *rng, const struct halves *halves, uint64_t x)
{
    uint64_t low = x & halves->low, high = x >> halves->low_bits;
    for (uint32_t round = 0; round < ROUNDS; round += 2) {
        rng->repeat_index = round;
        low ^= hd_rng_draw_u64(rng, (uint32_t)high) & halves->low;
        rng->repeat_index = round + 1;
        high ^= hd_rng_draw_u64(rng, (uint32_t)low) & halves->high;
    }
    return high << halves->low_bits | low;
}

/* Returns entry p of the permutation of an epoch, p < samples. */
static int64_t order(const struct hd_sampler *sampler, int64_t epoch, int64_t p)
{
    if (!sampler->shuffle)
        return p;
    struct hd_rng rng = hd_rng_make(sampler->seed, STREAM, 0, epoch, 0);
    const struct halves halves = split(sampler->samples);
    uint64_t x = (uint64_t)p;
    do {
        x = permute(&rng, &halves, x);
    } while (x >= (uint64_t)sampler->samples);
    return (int64_t)x;
}

/* -- Distribution to shards -------------------------------------------------------------------- */

int64_t hd_sampler_count_max(const struct hd_sampler *sampler)
{
    const int64_t n = sampler->samples, shards = sampler->shards;
    return sampler->tail == HD_TAIL_DROP ? n / shards : n / shards + (n % shards != 0);
}

int64_t hd_sampler_count(const struct hd_sampler *sampler, int64_t shard)
{
    const int64_t n = sampler->samples, shards = sampler->shards;
    if (sampler->tail == HD_TAIL_UNEVEN)
        return n / shards + (shard < n % shards);
    return hd_sampler_count_max(sampler);
}

int64_t hd_sampler_get(const struct hd_sampler *sampler, int64_t epoch, int64_t shard, int64_t i,
                       bool *padding_p)
{
    const int64_t entry = i * sampler->shards + shard;
    if (padding_p)
        *padding_p = entry >= sampler->samples;
    return order(sampler, epoch, entry % sampler->samples);
}
