/* SPDX-License-Identifier: Apache-2.0 */
/* A replay ring: the last transitions of a group of envs, and of each env the last frames that it
 * showed, each once, in one block of plain memory (zeroed: empty). Observations are put together
 * when a transition is drawn. When a frame is overwritten, the transitions that need it go, and
 * with them all older ones, so that what is drawn is always what was stored. Thread safe on
 * different memory. */
#ifndef HD_KERNELS_REPLAY_REPLAY_H
#define HD_KERNELS_REPLAY_REPLAY_H

#include "kernels/replay/transitions.h"
#include "runtime/base/rng.h"

struct hd_replay_shape {
    int64_t capacity; /* transitions kept at most */
    int64_t envs;
    int64_t frames; /* kept of each env; with too few, fewer transitions are kept */
    int64_t frame_bytes;
    int64_t stack; /* frames of an observation */
    int64_t nstep;
};

/* Bytes of a ring. */
int64_t hd_replay_get_bytes(const struct hd_replay_shape *shape);

/* Transitions held, and frames of an env ever added. */
int64_t hd_replay_get_size(const struct hd_replay_shape *shape, const void *ring);
int64_t hd_replay_count_shown(const struct hd_replay_shape *shape, const void *ring, int64_t env);

/* Adds the next frame of an env, over its oldest. */
void hd_replay_add_frame(const struct hd_replay_shape *shape, void *ring, int64_t env,
                         const void *frame);

/* Adds a transition, over the oldest. Its frames must have been added; the frames of an env's
 * transitions come in ascending order. */
void hd_replay_add(const struct hd_replay_shape *shape, void *ring,
                   const struct hd_transition *transition);

/* Stratified sampling (spec 2.8): the position of the i-th of `batch` draws among `size` > 0,
 * floor((i + u) size / batch), u in [0, 1). */
HD_INLINE int64_t hd_replay_get_stratum(int64_t i, double u, int64_t batch, int64_t size)
{
    const int64_t position = (int64_t)(((double)i + u) * (double)size / (double)batch);
    return position < size ? position : size - 1; /* i + u may have rounded up to batch */
}

/* Writes the transition at a position, 0 … size - 1, to row `row` of `to`. Positions are in the
 * order of memory: while none was lost for want of frames, transition t (from 0, of all ever added)
 * is at position t mod capacity, as in DI-engine. */
void hd_replay_get(const struct hd_replay_shape *shape, const void *ring, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row);

/* -- On a GPU: a ring in device memory, its bytes those of a ring in the host's ---------------- */

/* What is stored: frames in the order shown, then transitions. Device or shared memory. */
struct hd_replay_input {
    const int64_t *n_frames; /* [1] */
    int64_t max_frames;      /* *n_frames is at most this */
    const int32_t *env;      /* [n_frames] which env showed it */
    const char *frames;      /* [n_frames][frame_bytes] */
    const int64_t *first;    /* [envs] number of each env's first frame here */
    const void *transitions; /* block of them, 8-byte aligned */
    int64_t n_transitions;
};

/* Written when it is stored. */
struct hd_replay_result {
    int64_t size;   /* transitions held then */
    int64_t broken; /* 1 + the first env whose next frame is not input->first: nothing was stored;
                       0: all is well */
};

/* Adds all frames and then all transitions, as hd_replay_add_frame and hd_replay_add do one by one,
 * to the byte. scratch: hd_replay_get_scratch_bytes(max_frames) bytes of device memory; report:
 * device or shared. `input`, memory of the host, is read before the call returns; all that it
 * points to, when the kernels run. */
int64_t hd_replay_get_scratch_bytes(int64_t max_frames);
int hd_replay_push_cuda(const struct hd_replay_shape *shape, void *ring,
                        const struct hd_replay_input *input, void *scratch,
                        struct hd_replay_result *report, void *stream);

/* Fills `to`, arrays in device memory, with transitions drawn by stratified sampling, draw i by
 * item i: the rows that hd_replay_get gives. weight[rows] (NULL: none) becomes 1 and *used (NULL:
 * not told) the number of rows; where the ring is empty, all arrays get zeros and *used becomes 0.
 * One launch; its arguments change from draw to draw: not to be captured. */
int hd_replay_sample_cuda(const struct hd_replay_shape *shape, const void *ring, struct hd_rng rng,
                          const struct hd_transition_shape *to_shape, struct hd_transitions to,
                          float *weight, int64_t *used, void *stream);

#endif
