/* SPDX-License-Identifier: Apache-2.0 */
/* A replay ring: the last transitions of some envs, and the last frames that each env showed, each
 * frame once, in one block of plain memory (zeroed: empty). Observations are assembled when a
 * transition is sampled. When a frame is overwritten, the transitions that need it are dropped, and
 * with them all older ones, so that a sampled transition is always complete. Thread safe on
 * different memory. */
#pragma once

#include "kernels/replay/priorities.h"
#include "kernels/replay/transitions.h"
#include "runtime/base/numbers.h"
#include "runtime/base/rng.h"

struct hd_replay_shape {
    int64_t capacity; /* transitions kept at most */
    int64_t envs;
    int64_t frames; /* frames kept of each env; if they are too few, fewer transitions are kept */
    int64_t frame_bytes;
    int64_t stack; /* frames of an observation */
    int64_t nstep;
    int64_t dims; /* numbers of an action */
};

/* Returns the bytes of a ring. */
int64_t hd_replay_get_bytes(const struct hd_replay_shape *shape);

/* Return the number of transitions held, and the number of frames ever added for an env. */
int64_t hd_replay_get_size(const struct hd_replay_shape *shape, const void *ring);
int64_t hd_replay_count_shown(const struct hd_replay_shape *shape, const void *ring, int64_t env);

/* Stores which transitions are held: *first_p … *end_p - 1, numbered as they were added. */
void hd_replay_get_held(const struct hd_replay_shape *shape, const void *ring, int64_t *first_p,
                        int64_t *end_p);

/* Checks a ring of such actions that was read from a file. Returns HD_OK, or HD_ERR_FORMAT with a
 * sentence in `message` (not logged) if a call could leave the ring's memory, or not end. */
int hd_replay_check(const struct hd_replay_shape *shape, const struct hd_env_actions *actions,
                    const void *ring, char message[HD_NUMBERS_MESSAGE]);

/* Adds the next frame of an env; overwrites its oldest. */
void hd_replay_add_frame(const struct hd_replay_shape *shape, void *ring, int64_t env,
                         const void *frame);

/* Adds a transition; overwrites the oldest. Its frames must have been added, and the frames of an
 * env's transitions come in ascending order. */
void hd_replay_add(const struct hd_replay_shape *shape, void *ring,
                   const struct hd_transition *transition);

/* Returns the position of the i-th of `batch` stratified draws among `size` > 0 (docs/di-engine.md
 * 2.8): floor((i + u) size / batch), u in [0, 1). */
HD_INLINE int64_t hd_replay_get_stratum(int64_t i, double u, int64_t batch, int64_t size)
{
    const int64_t position = (int64_t)(((double)i + u) * (double)size / (double)batch);
    return position < size ? position : size - 1; /* i + u may have rounded up to batch */
}

/* Writes the transition at a position, 0 … size - 1, to row `row` of `to`. Positions are in the
 * order of memory: as long as no transition was dropped for lack of frames, transition t (from 0,
 * of all ever added) is at position t mod capacity, as in DI-engine. */
void hd_replay_get(const struct hd_replay_shape *shape, const void *ring, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row);

/* Writes a transition that is held, given by its number, to row `row` of `to`. */
void hd_replay_get_number(const struct hd_replay_shape *shape, const void *ring, int64_t number,
                          const struct hd_transition_shape *to_shape, struct hd_transitions to,
                          int64_t row);

/* -- On a GPU: a ring in device memory has the same bytes as one in host memory ---------------- */

/* The data to be added: frames in the order shown, then transitions, in device or shared memory. */
struct hd_replay_input {
    const int64_t *n_frames; /* [1] */
    int64_t max_frames;      /* limit of *n_frames */
    const int32_t *env;      /* [n_frames]: env that showed it */
    const char *frames;      /* [n_frames][frame_bytes] */
    const int64_t *first;    /* [envs]: number of each env's first frame here */
    const void *transitions; /* a block of transitions, 8-byte aligned */
    int64_t n_transitions;
};

/* Written when the data are added. */
struct hd_replay_result {
    int64_t size;   /* transitions held afterwards */
    int64_t broken; /* 1 + the first env whose next frame is not input->first, in which case nothing
                       is added; else 0 */
};

/* Adds all frames and then all transitions, with the bytes of hd_replay_add_frame and hd_replay_add
 * for each. `scratch` has hd_replay_get_scratch_bytes(max_frames) bytes of device memory; `report`
 * is device or shared memory. `input`, in host memory, is read before the call returns; what it
 * points to is read when the kernels run. Returns HD_OK or HD_ERR_DEVICE (logged). */
int64_t hd_replay_get_scratch_bytes(int64_t max_frames);
int hd_replay_push_cuda(const struct hd_replay_shape *shape, void *ring,
                        const struct hd_replay_input *input, void *scratch,
                        struct hd_replay_result *report, void *stream);

/* The priorities by which rows are drawn. */
struct hd_replay_draws {
    struct hd_priorities_shape shape;
    struct hd_priorities *priorities; /* of the transitions that the ring holds; draws is counted */
    bool weighs; /* by importance, whose exponent is beta + draws * anneal, at most 1 */
    double beta, anneal;
    int64_t *number;   /* [rows]: written: the transition */
    float *importance; /* [rows]: written: 1 if rows are not weighed */
};

/* Fills `to`, arrays in device memory, with transitions sampled by strata, draw i by item i of
 * *rng, in device or shared memory: the rows that hd_replay_get gives. Sets weight[rows] (unless
 * NULL) to 1 and *used (unless NULL) to the number of rows; if the ring is empty, all arrays get
 * zeros and *used becomes 0. `by` NULL: strata have as many transitions each; else equal sums of
 * weights. Launches read *rng when they run. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_replay_sample_cuda(const struct hd_replay_shape *shape, const void *ring,
                          const struct hd_rng *rng, const struct hd_transition_shape *to_shape,
                          struct hd_transitions to, float *weight, int64_t *used,
                          const struct hd_replay_draws *by, void *stream);

/* Brings priorities up to date with a ring after a push, both in device memory. One launch. Returns
 * HD_OK or HD_ERR_DEVICE (logged). */
int hd_replay_push_priorities_cuda(const struct hd_replay_shape *shape, const void *ring,
                                   const struct hd_priorities_shape *priorities_shape,
                                   struct hd_priorities *priorities, void *stream);
