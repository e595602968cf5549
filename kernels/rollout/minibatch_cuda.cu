/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/steps.cuh"

extern "C" {
#include "kernels/rollout/minibatch.h"
}

/* Copies the numbers of a row, everything but its observation. */
static __device__ void copy_numbers(const struct hd_minibatch_source *source, int64_t sample,
                                    const struct hd_minibatch_arrays *to, int64_t row)
{
    const struct hd_steps *from = &source->from;
    const char *group = hd_steps_get_group(from, sample);
    const int64_t step = hd_steps_get_row(from, sample), logits = from->logits;
    const float *logit = (const float *)(group + from->at.logit) + step * logits;
    const union hd_action_number *action =
        (const union hd_action_number *)(group + from->at.action) + step * from->dims;
    for (int64_t i = threadIdx.x; i < logits; i += blockDim.x)
        to->logit[row * logits + i] = logit[i];
    if (threadIdx.x != 0)
        return;
    for (int64_t d = 0; d < from->dims; d++)
        to->action[row * from->dims + d] = action[d];
    to->advantage[row] = source->advantage[sample];
    to->target[row] = source->target[sample];
    to->value[row] = source->value[sample];
}

/* Each thread block fills a row. Only one of its threads reads numbers that may be in host memory,
 * because such reads are slow. */
template <typename word>
static __global__ void gather_rows(const struct hd_minibatch_source source,
                                   const struct hd_minibatch_arrays to)
{
    HD_AWAIT_INPUTS();
    __shared__ int32_t sample;
    const struct hd_steps *from = &source.from;
    const int64_t row = blockIdx.x;
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        const int64_t lo = source.range->lo, used = source.range->hi - lo;
        sample = source.sample[row < used ? lo + row : lo];
        if (row == 0 && to.used)
            *to.used = used;
    }
    __syncthreads();
    hd_steps_copy<word>(from, sample, 0, to.obs + row * from->stack * from->frame_bytes);
    if (threadIdx.y == 0)
        copy_numbers(&source, sample, &to, row);
}

extern "C" int hd_minibatch_gather_cuda(const struct hd_minibatch_source *source,
                                        const struct hd_minibatch_arrays *to, void *stream)
{
    const struct hd_steps *from = &source->from;
    if (source->rows == 0)
        return HD_OK;
    return HD_LAUNCH_ROWS(gather_rows, from, to->obs, source->rows, stream, *source, *to);
}
