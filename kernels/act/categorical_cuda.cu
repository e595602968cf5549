/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/act/categorical.h"
}

static __global__ void draw_actions(const float *logit, int64_t ld, int64_t n, int64_t rows,
                                    const struct hd_draws *draws, int32_t *action, float *kept)
{
    const int64_t i = HD_ELEMENT;
    if (i >= rows)
        return;
    const double u = hd_rng_draw_uniform(&draws->rng, draws->first + (uint32_t)i);
    action[i] = (int32_t)hd_categorical_draw(logit + i * ld, n, u);
    for (int64_t j = 0; j < n && kept; j++)
        kept[i * n + j] = logit[i * ld + j];
}

extern "C" int hd_categorical_draw_cuda(const float *logit, int64_t ld, int64_t n, int64_t rows,
                                        const struct hd_draws *draws, int32_t *action, float *kept,
                                        void *stream)
{
    if (rows == 0)
        return HD_OK;
    return HD_LAUNCH(draw_actions, hd_cuda_count_blocks(rows), HD_THREADS, stream, logit, ld, n,
                     rows, draws, action, kept);
}
