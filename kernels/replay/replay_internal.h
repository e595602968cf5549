/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a replay ring, for CPUs and GPUs. Thread safe on different memory. */
#pragma once

#include "kernels/replay/replay.h"

struct hd_replay_header {
    int64_t added, lost; /* transitions ever added; the first `lost` of them are gone */
};

/* The arrays of a ring, in the order of memory. */
struct hd_replay_ring {
    struct hd_replay_header *header;
    int64_t *shown; /* [envs]: frames ever added */
    int64_t *users; /* [envs][frames]: 1 + the last transition whose oldest frame is in this slot,
                       or 0 */
    char *transitions; /* [capacity] */
    char *frames;      /* [envs][frames][frame_bytes] */
};

/* Returns the addresses of the arrays in a block of memory, which is not accessed. */
struct hd_replay_ring hd_replay_ring_lay_out(const struct hd_replay_shape *shape,
                                             const void *memory);

/* Returns the slot of a frame among those of all envs. */
HD_INLINE int64_t hd_replay_find_slot(const struct hd_replay_shape *shape, int64_t env,
                                      int64_t frame)
{
    return env * shape->frames + frame % shape->frames;
}

/* Returns the oldest frame that a transition needs. */
HD_INLINE int64_t hd_replay_find_oldest(const struct hd_replay_shape *shape, int64_t frame,
                                        int64_t age)
{
    return frame - (age < shape->stack - 1 ? age : shape->stack - 1);
}

/* Returns the index in memory of the transition at a position. The transitions held are [begin,
 * capacity) and [0, end), or [begin, end). */
HD_INLINE int64_t hd_replay_find_transition(const struct hd_replay_shape *shape,
                                            const struct hd_replay_header *header, int64_t position)
{
    const int64_t begin = header->lost % shape->capacity, end = header->added % shape->capacity;
    if (begin < end)
        return begin + position;
    return position < end ? position : begin + position - end;
}

/* Returns frame k, 0 … stack - 1, of the observation that ends with `frame`, which comes `age`
 * frames after its episode's first. */
HD_INLINE const char *hd_replay_find_frame(const struct hd_replay_shape *shape,
                                           const struct hd_replay_ring *ring, int64_t env,
                                           int64_t frame, int64_t age, int64_t k)
{
    const int64_t back = shape->stack - 1 - k;
    const int64_t slot = hd_replay_find_slot(shape, env, frame - (back < age ? back : age));
    return ring->frames + slot * shape->frame_bytes;
}
