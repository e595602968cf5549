/* SPDX-License-Identifier: Apache-2.0 */
/* The records of an on-policy collect whose envs all step at once, besides frames: actions and the
 * logits from which they were drawn, and in the end the samples and the ended episodes. Each env
 * makes one fragment, and all fragments are complete with the last step (they are not cut at ends
 * of episodes). Arrays are those of a group of the type `trajectories`; step t of env e has index e
 * T + t. Thread safe on different memory. Functions use device memory and only launch kernels. */
#pragma once

#include "runtime/base/rng.h"

struct hd_fragments {
    int64_t envs, steps, samples, actions; /* E, T, Q <= E T; E T < 2^31 */
    /* Numbers of each step. */
    float *logit;    /* [E][T][actions] */
    float *value;    /* [E][T]: of the observation */
    int32_t *action; /* [E][T] */
    /* For each sample, whose number is e T + t too. */
    int32_t *row; /* [Q]: number of its step */
    float *end;   /* [Q]: 1 where a fragment or an episode ends, else 0 */
    /* Numbers of the whole collect. */
    int64_t *made, *forward, *ended; /* [1]: samples E T, steps T, episodes that ended */
    double *ended_return,
        *ended_steps; /* [E T]: returns and lengths of the ended episodes, by t, then by e */
};

/* The records of the envs' own steps (kernels/envs/env_gpu.h). */
struct hd_fragment_ends {
    const float *done;          /* [E][T]: 1 or 0 */
    const double *ended_return; /* [E][T]: return of the episode that ended, where one did */
    const int64_t *ended_steps; /* [E][T]: its length */
};

/* Draws the actions of step t from output[E][ld], whose first `actions` numbers in each row are
 * logits, and the last one the value. Env e uses item first + e of rng. The GPU reads rng, in
 * memory that the GPU addresses, when it runs. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_fragments_draw_actions_cuda(const struct hd_fragments *fragments, const float *output,
                                   int64_t ld, const struct hd_rng *rng, uint32_t first, int64_t t,
                                   void *stream);

/* Completes the records after the last step. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_fragments_complete_cuda(const struct hd_fragments *fragments,
                               const struct hd_fragment_ends *ends, void *stream);

/* Zeroes device memory, a multiple of 8 bytes. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_fragments_clear_cuda(void *memory, int64_t bytes, void *stream);
