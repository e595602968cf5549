/* SPDX-License-Identifier: Apache-2.0 */
/* A replay ring: the last shape->rows transitions, in one block of plain memory (zeroed: empty).
 * Positions count from 0 to the ring's size. Thread safe on different memory. */
#ifndef HD_KERNELS_REPLAY_H
#define HD_KERNELS_REPLAY_H

#include "kernels/transitions.h"

/* Bytes of a ring. */
int64_t hd_replay_bytes(const struct hd_transition_shape *shape);

/* Transitions held: at most shape->rows. */
int64_t hd_replay_size(const struct hd_transition_shape *shape, const void *ring);

/* Stores all rows of `from`, in order, over the oldest. */
void hd_replay_push(const struct hd_transition_shape *shape, void *ring,
                    const struct hd_transition_shape *from_shape, struct hd_transitions from);

/* Stratified sampling (spec 2.8): the position of the i-th of `batch` draws among `size` > 0,
 * floor((i + u) size / batch), u in [0, 1). */
int64_t hd_replay_stratum(int64_t i, double u, int64_t batch, int64_t size);

/* Copies the transition at a position to row `row` of `to`. */
void hd_replay_get(const struct hd_transition_shape *shape, const void *ring, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row);

#endif
