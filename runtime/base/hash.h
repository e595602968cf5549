/* SPDX-License-Identifier: Apache-2.0 */
/* 64-bit hashes (XXH3). Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements per block of every reduction over elements. Blocks are counted from a tensor's start and
 * buckets are whole blocks, so cutting a tensor in buckets changes no bit. */
enum { HD_BLOCK = 4096 };

/* Returns the hash of a byte string. */
uint64_t hd_hash_bytes(const void *data, size_t bytes);

/* Returns the hash of a zero-terminated string. */
uint64_t hd_hash_text(const char *text);

/* Gives the hash of a file's content. Returns false, with errno set, where it cannot be read. */
bool hd_hash_file(const char *path, uint64_t *hash_p);

/* Mixes `value` into `hash`; order matters. The result is hd_hash_bytes of the two, written out
 * (XXH3 of 9 to 16 bytes) so that CPUs and GPUs can compute it. */
HD_INLINE uint64_t hd_hash_mix(uint64_t hash, uint64_t value)
{
    const uint64_t low = hash ^ 0x6782737BEA4239B9u, high = value ^ 0xAF56BC3B0996523Au;
    const unsigned __int128 product = (unsigned __int128)low * high;
    const uint64_t halves = (low & 0x00FF00FF00FF00FFu) << 8 | (low >> 8 & 0x00FF00FF00FF00FFu);
    const uint64_t words =
        (halves & 0x0000FFFF0000FFFFu) << 16 | (halves >> 16 & 0x0000FFFF0000FFFFu);
    const uint64_t swapped = words << 32 | words >> 32;
    uint64_t mixed = 16 + swapped + high + ((uint64_t)product ^ (uint64_t)(product >> 64));
    mixed = (mixed ^ mixed >> 37) * 0x165667919E3779F9u;
    return mixed ^ mixed >> 32;
}

/* Mixes the hashes of float data[n], one per block of HD_BLOCK elements, into `hash` in the order
 * of the blocks. Parts that are whole blocks continue one another. Start with hash = 0. */
uint64_t hd_hash_floats(uint64_t hash, const float *data, int64_t n);
