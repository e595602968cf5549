/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/act/categorical.h"
}

struct groups {
    struct hd_categorical_group of[HD_CATEGORICAL_GROUPS];
};

static __global__ void draw_actions(const float *logit, int64_t ld, int64_t n, int64_t rows,
                                    const struct groups groups, int64_t all_rows)
{
    HD_AWAIT_INPUTS();
    const int64_t at = HD_ELEMENT, i = at % rows;
    if (at >= all_rows)
        return;
    const struct hd_categorical_group &group = groups.of[at / rows];
    const double u = hd_rng_draw_uniform(&group.draws->rng, group.draws->first + (uint32_t)i);
    group.action[i] = (int32_t)hd_categorical_draw(logit + at * ld, n, u);
    for (int64_t j = 0; j < n && group.kept; j++)
        group.kept[i * n + j] = logit[at * ld + j];
}

extern "C" int hd_categorical_draw_cuda(const float *logit, int64_t ld, int64_t n, int64_t rows,
                                        const struct hd_categorical_group *groups, int64_t n_groups,
                                        void *stream)
{
    struct groups all = {};
    if (rows * n_groups == 0)
        return HD_OK;
    for (int64_t i = 0; i < n_groups; i++)
        all.of[i] = groups[i];
    return HD_LAUNCH(draw_actions, hd_cuda_count_blocks(rows * n_groups), HD_THREADS, stream, logit,
                     ld, n, rows, all, rows * n_groups);
}
