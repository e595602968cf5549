/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/learn/losses/rows.cuh"

extern "C" {
#include "kernels/learn/losses/cross_entropy_internal.h"
}

typedef struct hd_cross_entropy_sums sums_of_rows;

static __device__ void add_sums(sums_of_rows *into, const sums_of_rows &other)
{
    into->loss += other.loss;
    into->weight += other.weight;
    into->weighted_loss += other.weighted_loss;
    into->weighted_hits += other.weighted_hits;
}

static __global__ void cross_entropy_rows(const struct hd_cross_entropy loss, const int64_t *used_p,
                                          float *dlogit, sums_of_rows *sums_p)
{
    HD_AWAIT_INPUTS();
    const int64_t used = hd_rows_count_used(used_p, loss.batch);
    sums_of_rows sums = {};
    for (int64_t b = threadIdx.x; b < loss.batch; b += HD_ROW_THREADS)
        if (b < used)
            hd_cross_entropy_add_row(&loss, b, dlogit + b * loss.actions, &sums);
        else
            hd_rows_zero(dlogit + b * loss.actions, loss.actions);
    sums = hd_rows_sum<sums_of_rows, add_sums>(sums);
    if (threadIdx.x == 0)
        *sums_p = sums;
}

extern "C" int hd_cross_entropy_compute_cuda(const struct hd_cross_entropy *loss,
                                             const int64_t *used, float *dlogit,
                                             struct hd_cross_entropy_sums *sums_p, void *stream)
{
    return HD_LAUNCH(cross_entropy_rows, 1, HD_ROW_THREADS, stream, *loss, used, dlogit, sums_p);
}
