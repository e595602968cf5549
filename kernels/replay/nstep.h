/* SPDX-License-Identifier: Apache-2.0 */
/* n-step transitions from a fragment of consecutive steps of one env (spec 2.4). */
#ifndef HD_KERNELS_REPLAY_NSTEP_H
#define HD_KERNELS_REPLAY_NSTEP_H

#include "kernels/replay/transitions.h"

/* L steps of one env, of one episode; only the last may end it. */
struct hd_fragment {
    int64_t length; /* L */
    int64_t frame;  /* number of the frame before the first step; each step shows the next one */
    int64_t age;    /* frames of the episode before that one */
    int32_t env;
    const int32_t *action; /* [L] */
    const float *reward;   /* [L] */
    bool done;             /* the last step ended the episode */
};

/* The factor of the value of next_obs where only k < n rewards are left, or k = n at the end of the
 * fragment: DI-engine's gamma^(k - 1), or the right gamma^k. They differ only where a fragment ends
 * before its episode does. */
enum hd_nstep_tail { HD_NSTEP_DI_ENGINE, HD_NSTEP_CORRECTED };

/* Writes the fragment's first `count` <= L transitions to a block of them. Each has up to nstep
 * rewards, the observation nstep steps later or at the fragment's end, and (nstep > 1) its
 * bootstrap factor. */
void hd_nstep_assemble(const struct hd_fragment *fragment, double gamma, enum hd_nstep_tail tail,
                       int64_t nstep, int64_t count, void *transitions);

#endif
