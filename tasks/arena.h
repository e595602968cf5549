/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting one block of memory into aligned arrays: the code that lays arrays out also tells how
 * many bytes they need, by running over no memory. */
#ifndef HD_TASKS_ARENA_H
#define HD_TASKS_ARENA_H

#include "runtime/base/alloc.h"

struct hd_arena {
    char *memory; /* HD_ALIGNMENT-aligned; NULL: only counts */
    int64_t used; /* bytes so far, whole multiples of HD_ALIGNMENT */
};

/* The next count * size bytes, or NULL when only counting. */
static inline void *hd_arena_take(struct hd_arena *arena, int64_t count, size_t size)
{
    void *array = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += hd_align_up(count * (int64_t)size);
    return array;
}

#endif
