/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay.h"

#include "runtime/base/alloc.h"

/* A ring: this head, padded to HD_ALIGNMENT, then the transitions. */
struct head {
    int64_t pushed; /* transitions ever stored */
};

static struct hd_transitions rows_of(const struct hd_transition_shape *shape, const void *ring)
{
    return hd_transitions_at(shape, (char *)ring + HD_ALIGNMENT);
}

int64_t hd_replay_bytes(const struct hd_transition_shape *shape)
{
    return HD_ALIGNMENT + hd_transitions_bytes(shape);
}

int64_t hd_replay_size(const struct hd_transition_shape *shape, const void *ring)
{
    int64_t pushed = ((const struct head *)ring)->pushed;
    return pushed < shape->rows ? pushed : shape->rows;
}

void hd_replay_push(const struct hd_transition_shape *shape, void *ring,
                    const struct hd_transition_shape *from_shape, struct hd_transitions from)
{
    struct head *head = ring;
    struct hd_transitions rows = rows_of(shape, ring);
    for (int64_t first = 0, count; first < from_shape->rows; first += count) {
        int64_t position = head->pushed % shape->rows;
        count = from_shape->rows - first;
        if (count > shape->rows - position)
            count = shape->rows - position;
        hd_transitions_copy(shape, rows, position, from_shape, from, first, count);
        head->pushed += count;
    }
}

int64_t hd_replay_stratum(int64_t i, double u, int64_t batch, int64_t size)
{
    int64_t position = (int64_t)(((double)i + u) * (double)size / (double)batch);
    return position < size ? position : size - 1; /* i + u may have rounded up to batch */
}

void hd_replay_get(const struct hd_transition_shape *shape, const void *ring, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row)
{
    hd_transitions_copy(to_shape, to, row, shape, rows_of(shape, ring), position, 1);
}
