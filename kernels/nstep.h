/* SPDX-License-Identifier: Apache-2.0 */
/* n-step transitions from a chunk of consecutive steps of one env (spec 2.4). */
#ifndef HD_KERNELS_NSTEP_H
#define HD_KERNELS_NSTEP_H

#include "kernels/transitions.h"

/* L steps of one env; only the last may end an episode. */
struct hd_chunk {
    int64_t length;        /* L */
    const float *obs;      /* [L + 1][obs_size]: before each step, and after the last */
    const int32_t *action; /* [L] */
    const float *reward;   /* [L] */
    bool done;             /* the last step ended the episode */
};

/* The factor of the value of next_obs where only k < n rewards are left, or k = n at the end of the
 * chunk: DI-engine's gamma^(k - 1), or the right gamma^k. They differ only where a chunk ends
 * before its episode does. */
enum hd_nstep_tail { HD_NSTEP_PARITY, HD_NSTEP_CORRECTED };

/* Writes the chunk's first `count` <= L transitions to rows [first, first + count); n is
 * shape->nstep. Each has up to n rewards, the observation n steps later or at the chunk's end, and
 * (n > 1) its bootstrap factor. */
void hd_nstep(const struct hd_chunk *chunk, double gamma, enum hd_nstep_tail tail,
              const struct hd_transition_shape *shape, struct hd_transitions rows, int64_t first,
              int64_t count);

#endif
