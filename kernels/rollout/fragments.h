/* SPDX-License-Identifier: Apache-2.0 */
/* What an on-policy collect notes of envs that all step at once, besides what they show: actions
 * and the logits that they were drawn from, and in the end its samples and the episodes that ended.
 * Each env makes one fragment, and all are complete in the last step (no cuts at ends of episodes).
 * Arrays are those of a leaf of the type `trajectories`; step t of env e is number e T + t. Thread
 * safe. On a GPU: device memory, launches only; on either processor the same bytes for the same
 * numbers, but for draws at a boundary (kernels/act/categorical.h). */
#ifndef HD_KERNELS_ROLLOUT_FRAGMENTS_H
#define HD_KERNELS_ROLLOUT_FRAGMENTS_H

#include "runtime/base/rng.h"

struct hd_fragments {
    int64_t envs, steps, samples, actions; /* E, T, Q <= E T; E T < 2^31 */
    /* Of each step. */
    float *logit;    /* [E][T][actions] */
    int32_t *action; /* [E][T] */
    /* Of each sample, number e T + t too. */
    int32_t *row; /* [Q]: number of its step */
    float *end;   /* [Q]: 1 where a fragment or an episode ends, else 0 */
    /* Of all. */
    int64_t *made, *forward, *ended;    /* [1]: samples E T, steps T, episodes that ended */
    double *ended_return, *ended_steps; /* [E T]: of these, by t, then by e; only so many */
};

/* What envs tell of their steps (kernels/envs/pixel_pong/pixel_pong.h). */
struct hd_fragment_ends {
    const float *done;          /* [E][T]: 1 or 0 */
    const double *ended_return; /* [E][T]: of the episode that ended, where one did */
    const int64_t *ended_steps; /* [E][T] */
};

/* Draws the actions of step t from output[E][ld], whose first `actions` numbers are logits: of env
 * e by item first + e. */
void hd_fragments_draw_actions(const struct hd_fragments *fragments, const float *output,
                               int64_t ld, const struct hd_rng *rng, uint32_t first, int64_t t);
int hd_fragments_draw_actions_cuda(const struct hd_fragments *fragments, const float *output,
                                   int64_t ld, const struct hd_rng *rng, uint32_t first, int64_t t,
                                   void *stream);

/* All steps are made. */
void hd_fragments_complete(const struct hd_fragments *fragments,
                           const struct hd_fragment_ends *ends);
int hd_fragments_complete_cuda(const struct hd_fragments *fragments,
                               const struct hd_fragment_ends *ends, void *stream);

/* Zeros of the GPU's memory, whole words of 8 bytes. */
int hd_fragments_clear_cuda(void *memory, int64_t bytes, void *stream);

#endif
