/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: zeroed, 64-byte aligned, never overflowing in count * size. Thread safe. */
#ifndef HD_RUNTIME_BASE_ALLOC_H
#define HD_RUNTIME_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

enum { HD_ALIGNMENT = 64 };

/* `bytes` filled up to whole units of alignment, so that what follows in a block is aligned too. */
static inline int64_t hd_align_up(int64_t bytes)
{
    return (bytes + HD_ALIGNMENT - 1) / HD_ALIGNMENT * HD_ALIGNMENT;
}

/* count * size zeroed bytes, 64-byte aligned; NULL (logged) when there is no memory. Owned by the
 * caller, released by hd_free. A zero size gives a valid pointer. */
void *hd_alloc(int64_t count, size_t size);

/* Grows a list of `size`-byte elements to hold at least `needed`; new elements are zeroed. `*list`
 * and `*capacity` are updated together. Returns HD_OK or HD_ERR_NOMEM. */
int hd_grow(void **list, int64_t *capacity, int64_t needed, size_t size);

/* A copy of a string; NULL (logged) when there is no memory. */
char *hd_strdup(const char *text);

/* A string of printf form; NULL (logged) when there is no memory. */
char *hd_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Accepts NULL; keeps errno. */
void hd_free(void *memory);

/* Testing: the n-th allocation from now fails (1 is the next); 0 turns this off. */
void hd_alloc_fail_nth(int64_t n);

#endif
