/* SPDX-License-Identifier: Apache-2.0 */
/* The priorities of the transitions in a replay ring: a segment tree of sums, from which
 * transitions are drawn with probabilities proportional to priority^alpha, and one of minima, for
 * the largest importance-sampling weight (Schaul et al. 2016, sections 3.3 and 3.4, appendix B.2.1;
 * docs/di-engine.md 2.9). One block of plain memory (zeroed: no transitions). Inner nodes are a
 * function of the leaves alone, whatever the order of changes. Thread safe on different memory. */
#pragma once

#include "runtime/base/numbers.h"

#include <stdbool.h>

struct hd_priorities_shape {
    int64_t capacity; /* of the ring, >= 1 */
    double alpha;     /* exponent of priorities, 0 … 1 */
};

/* A block begins with this; inner nodes follow. */
struct hd_priorities {
    int64_t first, end;  /* transitions first … end - 1 are held, numbered as they were added */
    int64_t draws;       /* batches drawn; the caller counts them */
    double max_priority; /* the largest that was set, and at least 1 once a transition is held */
    double weight[];     /* [capacity, rounded up to a power of 2]: priority^alpha of transition t
                            at index t mod capacity; 0: not held */
};

/* Return the bytes of a block, and how many of its first ones determine the others. */
int64_t hd_priorities_get_bytes(const struct hd_priorities_shape *shape);
int64_t hd_priorities_get_saved_bytes(const struct hd_priorities_shape *shape);

/* Computes all inner nodes from the leaves. */
void hd_priorities_build(const struct hd_priorities_shape *shape, struct hd_priorities *priorities);

/* Checks a block that was read from a file. Returns HD_OK, or HD_ERR_FORMAT with a sentence in
 * `message` (not logged). */
int hd_priorities_check(const struct hd_priorities_shape *shape,
                        const struct hd_priorities *priorities, char message[HD_NUMBERS_MESSAGE]);

/* Makes transitions first … end - 1 the held ones, end - capacity <= first: older ones are
 * forgotten, and new ones get max_priority. Neither bound ever falls. */
void hd_priorities_push(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                        int64_t first, int64_t end);

/* Sets the priority of a transition to priority >= 0, which must be finite, plus 1e-5, and raises
 * max_priority to `priority`. Does nothing and returns false if the transition is not held any
 * more. */
bool hd_priorities_set(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                       int64_t number, double priority);

/* Returns the transition in which share u, 0 … 1, of the sum of all weights ends, in the order of
 * indices. At least one transition is held. */
int64_t hd_priorities_find(const struct hd_priorities_shape *shape,
                           const struct hd_priorities *priorities, double u);

/* Returns the importance-sampling weight of a held transition, (N P)^-beta with N transitions and
 * its probability P, divided by the largest of them: above 0, at most 1. */
float hd_priorities_compute_importance(const struct hd_priorities_shape *shape,
                                       const struct hd_priorities *priorities, int64_t number,
                                       double beta);

/* -- On a GPU ---------------------------------------------------------------------------------- */
/* Blocks are in device memory. The inner nodes have the bits that a CPU computes from the leaves.
 */

enum { HD_PRIORITIES_ROWS = 1024 /* of a batch, at most */ };

/* The squared errors of a batch's rows: of row r at errors[r / micro * ld + r % micro]. */
struct hd_priorities_errors {
    const float *errors;
    int64_t rows, micro, ld;
    const int64_t *number; /* [rows]: of the row's transition */
    const int64_t *used;   /* the number of rows that count, the first ones */
};

/* Does what hd_priorities_push does, with bounds in device memory. One launch. Returns HD_OK or
 * HD_ERR_DEVICE (logged). */
int hd_priorities_push_cuda(const struct hd_priorities_shape *shape,
                            struct hd_priorities *priorities, const int64_t *first_p,
                            const int64_t *end_p, void *stream);

/* Does what hd_priorities_set does for each row in order, at most HD_PRIORITIES_ROWS; errors that
 * are not finite change nothing. One launch. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_priorities_set_cuda(const struct hd_priorities_shape *shape,
                           struct hd_priorities *priorities,
                           const struct hd_priorities_errors *errors, void *stream);
