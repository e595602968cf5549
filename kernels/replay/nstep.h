/* SPDX-License-Identifier: Apache-2.0 */
/* n-step transitions from a fragment of consecutive steps of one env (docs/di-engine.md 2.4).
 * Thread safe. */
#pragma once

#include "kernels/replay/transitions.h"

/* L steps of one env and one episode; only the last may end the episode. */
struct hd_fragment {
    int64_t length; /* L */
    int64_t frame;  /* number of the frame before the first step; each step shows the next frame */
    int64_t age;    /* frames of the episode before that frame */
    int32_t env;
    int64_t dims;                         /* numbers of an action */
    const union hd_action_number *action; /* [L][dims] */
    const float *reward;                  /* [L] */
    bool done;                            /* true: the last step ended the episode */
};

/* The factor of the value of next_obs where only k < n rewards remain, or k = n at the end of the
 * fragment: DI-engine's gamma^(k - 1), or the correct gamma^k. They differ only where a fragment
 * ends before its episode. */
enum hd_nstep_tail { HD_NSTEP_DI_ENGINE, HD_NSTEP_CORRECTED };

/* Writes the fragment's first `count` <= L transitions to a block of transitions. Each has up to
 * nstep rewards, the observation nstep steps later or at the fragment's end, and (if nstep > 1) its
 * bootstrap factor. */
void hd_nstep_assemble(const struct hd_fragment *fragment, double gamma, enum hd_nstep_tail tail,
                       int64_t nstep, int64_t count, void *transitions);
