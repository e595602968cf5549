/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts one block of memory into aligned arrays. The code that lays arrays out also counts their
 * bytes, by running over an arena without memory. One thread at a time per arena. */
#pragma once

#include "runtime/base/alloc.h"

struct hd_arena {
    char *memory; /* HD_ALIGNMENT-aligned; NULL: only counts */
    int64_t used; /* bytes so far, whole multiples of HD_ALIGNMENT */
};

/* Returns the next count * size bytes, or NULL when only counting. */
static inline void *hd_arena_take(struct hd_arena *arena, int64_t count, size_t size)
{
    void *array = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += hd_align_up(count * (int64_t)size);
    return array;
}
