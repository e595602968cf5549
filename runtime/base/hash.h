/* SPDX-License-Identifier: Apache-2.0 */
/* 64-bit hashes (XXH3). Thread safe. */
#ifndef HD_RUNTIME_BASE_HASH_H
#define HD_RUNTIME_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Elements per block of every reduction over elements: blocks are counted from a tensor's start,
 * so that parts, which are whole blocks, never change the bits. */
enum { HD_BLOCK = 4096 };

/* Hash of a byte string. */
uint64_t hd_hash_bytes(const void *data, size_t bytes);

/* Hash of a zero-terminated string. */
uint64_t hd_hash_text(const char *text);

/* Mixes `value` into `hash`; order matters. */
uint64_t hd_hash_mix(uint64_t hash, uint64_t value);

/* Hash of float data[n] by blocks of HD_BLOCK elements, folded in block order: the hashes of parts
 * that are whole blocks continue one another. Start with hash = 0. */
uint64_t hd_hash_floats(uint64_t hash, const float *data, int64_t n);

#endif
