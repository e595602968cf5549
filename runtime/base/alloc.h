/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates memory that is zeroed and aligned to 64 bytes. Thread safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { HD_ALIGNMENT = 64 };

/* Rounds `bytes` up to whole units of alignment, so that what follows in a block is aligned too. */
static inline int64_t hd_align_up(int64_t bytes)
{
    return (bytes + HD_ALIGNMENT - 1) / HD_ALIGNMENT * HD_ALIGNMENT;
}

/* Returns count * size zeroed bytes, aligned to 64, to be released by hd_free; a valid pointer also
 * for a size of zero. Returns NULL (logged) without memory, or when count * size overflows. */
void *hd_alloc(int64_t count, size_t size);

/* Grows a list of `size`-byte elements to hold at least `needed`, and updates *list and *capacity
 * together; new elements are zeroed. Returns HD_OK, or HD_ERR_NOMEM (logged), which leaves the list
 * as it was. */
int hd_grow(void **list, int64_t *capacity, int64_t needed, size_t size);

/* Returns a copy of a string, to be released by hd_free; NULL (logged) without memory. */
char *hd_strdup(const char *text);

/* Returns a string formatted as by printf, to be released by hd_free; NULL (logged) without memory.
 */
char *hd_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Releases what this header's functions returned. Accepts NULL; keeps errno. */
void hd_free(void *memory);

/* Makes the n-th allocation from now fail (1 is the next), for tests; 0 turns this off. */
void hd_alloc_fail_nth(int64_t n);
