/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/learn/gae.h"
}

/* The thread of a sample that ends a fragment goes back through the fragment. Numbers that do not
 * depend on the previous advantage are loaded for a few samples at a time, to hide the latency of
 * memory. */
static __global__ void advantages(const struct hd_gae gae, float *advantage)
{
    HD_AWAIT_INPUTS();
    enum { AHEAD = 8 };
    const int64_t last = HD_ELEMENT;
    const float decay = gae.gamma * gae.lambda;
    float next = 0;
    if (last >= gae.n || (last < gae.n - 1 && gae.end[last] == 0))
        return;
    for (int64_t t = last; t >= 0; t -= AHEAD) {
        float error[AHEAD];
        bool outside[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t at = t - i < 0 ? 0 : t - i;
            outside[i] = t - i < 0 || (at < last && gae.end[at] != 0);
            error[i] = hd_gae_compute_td_error(&gae, at);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (outside[i])
                return;
            advantage[t - i] = next = error[i] + decay * next;
        }
    }
}

extern "C" int hd_gae_compute_cuda(const struct hd_gae *gae, float *advantage, void *stream)
{
    if (gae->n == 0)
        return HD_OK;
    return HD_LAUNCH(advantages, hd_cuda_count_blocks(gae->n), HD_THREADS, stream, *gae, advantage);
}
