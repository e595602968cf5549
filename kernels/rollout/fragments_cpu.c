/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/fragments_internal.h"

void hd_fragments_draw_actions(const struct hd_fragments *fragments, const float *output,
                               int64_t ld, const struct hd_rng *rng, uint32_t first, int64_t t)
{
    for (int64_t env = 0; env < fragments->envs; env++)
        hd_fragments_draw_action(fragments, output, ld, rng, first, env, t);
}

void hd_fragments_complete(const struct hd_fragments *fragments,
                           const struct hd_fragment_ends *ends)
{
    const int64_t steps = fragments->envs * fragments->steps;
    for (int64_t i = 0; i < fragments->samples; i++)
        hd_fragments_note_sample(fragments, ends->done, i);
    *fragments->made = steps;
    *fragments->forward = fragments->steps;
    *fragments->ended = 0;
    for (int64_t k = 0; k < steps; k++) {
        const int64_t step = hd_fragments_find_in_time(fragments, k);
        if (ends->done[step] != 0)
            hd_fragments_note_end(fragments, ends, step, (*fragments->ended)++);
    }
}
