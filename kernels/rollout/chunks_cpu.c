/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/chunks_internal.h"

void hd_chunks_draw(const struct hd_chunks *chunks, const float *output, int64_t ld,
                    const struct hd_rng *rng, uint32_t first, int64_t t)
{
    for (int64_t env = 0; env < chunks->envs; env++)
        hd_chunks_draw_one(chunks, output + env * ld, rng, first, env, t);
}

void hd_chunks_complete(const struct hd_chunks *chunks, const struct hd_chunk_ends *ends)
{
    const int64_t steps = chunks->envs * chunks->steps;
    for (int64_t i = 0; i < chunks->samples; i++)
        hd_chunks_note_sample(chunks, ends->done, i);
    *chunks->made = steps;
    *chunks->forward = chunks->steps;
    *chunks->ended = 0;
    for (int64_t k = 0; k < steps; k++) {
        const int64_t step = hd_chunks_in_time(chunks, k);
        if (ends->done[step] != 0)
            hd_chunks_note_end(chunks, ends, step, (*chunks->ended)++);
    }
}
