/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/classic/pcg64.h"

enum { POOL = 4 };

/* Does one step of SeedSequence's hash: *constant takes the powers of `multiplier`. */
static uint32_t hash_word(uint32_t value, uint32_t *constant, uint32_t multiplier)
{
    value ^= *constant;
    *constant *= multiplier;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t result = 0xCA01F9DDu * x - 0x4973F715u * y;
    return result ^ result >> 16;
}

/* Computes SeedSequence(seed).generate_state(4, uint64). Words above the seed's length count as
 * zero, so two words represent any 64-bit seed. */
static void seed_state(uint64_t seed, uint64_t state[4])
{
    uint32_t pool[POOL] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t constant = 0x43B0D7E5u;
    for (int i = 0; i < POOL; i++)
        pool[i] = hash_word(pool[i], &constant, 0x931E8875u);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mix(pool[to], hash_word(pool[from], &constant, 0x931E8875u));
    constant = 0x8B51F9DDu;
    for (int i = 0; i < 4; i++) {
        uint64_t low = hash_word(pool[2 * i % POOL], &constant, 0x58F38DEDu);
        uint64_t high = hash_word(pool[(2 * i + 1) % POOL], &constant, 0x58F38DEDu);
        state[i] = high << 32 | low;
    }
}

static void advance(struct hd_pcg64 *rng)
{
    const unsigned __int128 multiplier =
        (unsigned __int128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    rng->state = rng->state * multiplier + rng->increment;
}

struct hd_pcg64 hd_pcg64_make(uint64_t seed)
{
    uint64_t s[4];
    seed_state(seed, s);
    struct hd_pcg64 rng = {.increment = ((unsigned __int128)s[2] << 64 | s[3]) << 1 | 1};
    advance(&rng);
    rng.state += (unsigned __int128)s[0] << 64 | s[1];
    advance(&rng);
    return rng;
}

uint64_t hd_pcg64_next(struct hd_pcg64 *rng)
{
    advance(rng);
    uint64_t folded = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
    int turn = (int)(rng->state >> 122);
    return folded >> turn | folded << (-turn & 63);
}

double hd_pcg64_uniform(struct hd_pcg64 *rng, double low, double high)
{
    return low + (high - low) * ((double)(hd_pcg64_next(rng) >> 11) * 0x1p-53);
}
