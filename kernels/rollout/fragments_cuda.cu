/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/rollout/fragments_internal.h"
}

static __global__ void draw_actions(const struct hd_fragments fragments, const float *output,
                                    int64_t ld, const struct hd_rng *rng, uint32_t first, int64_t t)
{
    HD_AWAIT_INPUTS();
    const int64_t env = HD_ELEMENT;
    if (env < fragments.envs)
        hd_fragments_draw_action(&fragments, output, ld, rng, first, env, t);
}

extern "C" int hd_fragments_draw_actions_cuda(const struct hd_fragments *fragments,
                                              const float *output, int64_t ld,
                                              const struct hd_rng *rng, uint32_t first, int64_t t,
                                              void *stream)
{
    return HD_LAUNCH(draw_actions, hd_cuda_count_blocks(fragments->envs), HD_THREADS, stream,
                     *fragments, output, ld, rng, first, t);
}

static __global__ void note_samples(const struct hd_fragments fragments, const float *done)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < fragments.samples)
        hd_fragments_note_sample(&fragments, done, i);
}

/* In one thread block, each thread counts the ended episodes in a range of the steps, ordered by
 * time, and writes them after those of the previous threads. */
static __global__ void note_ends(const struct hd_fragments fragments,
                                 const struct hd_fragment_ends ends)
{
    HD_AWAIT_INPUTS();
    __shared__ int64_t before[HD_THREADS + 1];
    const int64_t steps = fragments.envs * fragments.steps;
    const int64_t lo = steps * threadIdx.x / HD_THREADS,
                  hi = steps * (threadIdx.x + 1) / HD_THREADS;
    int64_t count = 0;
    for (int64_t k = lo; k < hi; k++)
        count += ends.done[hd_fragments_find_in_time(&fragments, k)] != 0;
    before[threadIdx.x + 1] = count;
    __syncthreads();
    if (threadIdx.x == 0) {
        before[0] = 0;
        for (int i = 0; i < HD_THREADS; i++)
            before[i + 1] += before[i];
        *fragments.made = steps;
        *fragments.forward = fragments.steps;
        *fragments.ended = before[HD_THREADS];
    }
    __syncthreads();
    int64_t i = before[threadIdx.x];
    for (int64_t k = lo; k < hi; k++) {
        const int64_t step = hd_fragments_find_in_time(&fragments, k);
        if (ends.done[step] != 0)
            hd_fragments_note_end(&fragments, &ends, step, i++);
    }
}

extern "C" int hd_fragments_complete_cuda(const struct hd_fragments *fragments,
                                          const struct hd_fragment_ends *ends, void *stream)
{
    HD_TRY(HD_LAUNCH(note_samples, hd_cuda_count_blocks(fragments->samples), HD_THREADS, stream,
                     *fragments, ends->done));
    return HD_LAUNCH(note_ends, 1, HD_THREADS, stream, *fragments, *ends);
}

static __global__ void clear_words(int64_t *words, int64_t n)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < n)
        words[i] = 0;
}

extern "C" int hd_fragments_clear_cuda(void *memory, int64_t bytes, void *stream)
{
    const int64_t n = bytes / (int64_t)sizeof(int64_t);
    return HD_LAUNCH(clear_words, hd_cuda_count_blocks(n), HD_THREADS, stream, (int64_t *)memory,
                     n);
}
