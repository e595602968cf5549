/* SPDX-License-Identifier: Apache-2.0 */
/* A replay ring: the last transitions of a group of envs, and of each env the last frames that it
 * showed, each once, in one block of plain memory (zeroed: empty). Observations are put together
 * when a transition is drawn. When a frame is overwritten, the transitions that need it go, and
 * with them all older ones, so that what is drawn is always what was stored. Thread safe on
 * different memory. */
#ifndef HD_KERNELS_REPLAY_H
#define HD_KERNELS_REPLAY_H

#include "kernels/transitions.h"

struct hd_replay_shape {
    int64_t capacity; /* transitions kept at most */
    int64_t envs;
    int64_t frames; /* kept of each env; with too few, fewer transitions are kept */
    int64_t frame_bytes;
    int64_t stack; /* frames of an observation */
    int64_t nstep;
};

/* Bytes of a ring. */
int64_t hd_replay_bytes(const struct hd_replay_shape *shape);

/* Transitions held, and frames of an env ever added. */
int64_t hd_replay_size(const struct hd_replay_shape *shape, const void *ring);
int64_t hd_replay_shown(const struct hd_replay_shape *shape, const void *ring, int64_t env);

/* Adds the next frame of an env, over its oldest. */
void hd_replay_add_frame(const struct hd_replay_shape *shape, void *ring, int64_t env,
                         const void *frame);

/* Adds a transition, over the oldest. Its frames must have been added; the frames of an env's
 * transitions come in ascending order. */
void hd_replay_add(const struct hd_replay_shape *shape, void *ring,
                   const struct hd_transition *transition);

/* Stratified sampling (spec 2.8): the position of the i-th of `batch` draws among `size` > 0,
 * floor((i + u) size / batch), u in [0, 1). */
int64_t hd_replay_stratum(int64_t i, double u, int64_t batch, int64_t size);

/* Writes the transition at a position, 0 … size - 1, to row `row` of `to`. Positions are in the
 * order of memory: while none was lost for want of frames, transition t (from 0, of all ever added)
 * is at position t mod capacity, as in DI-engine. */
void hd_replay_get(const struct hd_replay_shape *shape, const void *ring, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row);

#endif
