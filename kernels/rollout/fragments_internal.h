/* SPDX-License-Identifier: Apache-2.0 */
/* The records of one step, one sample and one ended episode, for CPUs and GPUs. Thread safe on
 * different elements. */
#pragma once

#include "kernels/act/categorical.h"
#include "kernels/rollout/fragments.h"

#include <stdbool.h>

/* Draws the action of env `env` in step t and records it with its logits and value. */
HD_INLINE void hd_fragments_draw_action(const struct hd_fragments *fragments, const float *output,
                                        int64_t ld, const struct hd_rng *rng, uint32_t first,
                                        int64_t env, int64_t t)
{
    const int64_t step = env * fragments->steps + t, actions = fragments->actions;
    const float *logit = output + env * ld;
    const double u = hd_rng_draw_uniform(rng, first + (uint32_t)env);
    for (int64_t i = 0; i < actions; i++)
        fragments->logit[step * actions + i] = logit[i];
    fragments->value[step] = logit[ld - 1];
    fragments->action[step] = (int32_t)hd_categorical_draw(logit, actions, u);
}

/* Records a sample. Samples are the steps in their order; nothing follows the last one. */
HD_INLINE void hd_fragments_note_sample(const struct hd_fragments *fragments, const float *done,
                                        int64_t i)
{
    const bool last = (i + 1) % fragments->steps == 0 || i + 1 == fragments->samples;
    fragments->row[i] = (int32_t)i;
    fragments->end[i] = last || done[i] != 0 ? 1.0f : 0.0f;
}

/* Returns the index of the step that comes k-th in time. */
HD_INLINE int64_t hd_fragments_find_in_time(const struct hd_fragments *fragments, int64_t k)
{
    return k % fragments->envs * fragments->steps + k / fragments->envs;
}

/* Records that the i-th ended episode ended in this step. */
HD_INLINE void hd_fragments_note_end(const struct hd_fragments *fragments,
                                     const struct hd_fragment_ends *ends, int64_t step, int64_t i)
{
    fragments->ended_return[i] = ends->ended_return[step];
    fragments->ended_steps[i] = (double)ends->ended_steps[step];
}
