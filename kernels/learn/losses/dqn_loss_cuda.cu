/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/learn/losses/rows.cuh"

extern "C" {
#include "kernels/learn/losses/dqn_loss_internal.h"
}

typedef struct hd_dqn_sums sums_of_rows;

static __device__ void add_sums(sums_of_rows *into, const sums_of_rows &other)
{
    into->loss += other.loss;
    into->q += other.q;
    into->target_q += other.target_q;
}

static __global__ void dqn_rows(const struct hd_dqn_loss loss, const int64_t *used_p, float *dq,
                                float *td2, sums_of_rows *sums_p)
{
    HD_AWAIT_INPUTS();
    const int64_t used = hd_rows_count_used(used_p, loss.batch);
    sums_of_rows sums = {};
    for (int64_t b = threadIdx.x; b < loss.batch; b += HD_ROW_THREADS)
        if (b < used) {
            const float square = hd_dqn_add_row(&loss, b, dq + b * loss.actions, &sums);
            if (td2)
                td2[b] = square;
        } else {
            hd_rows_zero(dq + b * loss.actions, loss.actions);
        }
    sums = hd_rows_sum<sums_of_rows, add_sums>(sums);
    if (threadIdx.x == 0)
        *sums_p = sums;
}

extern "C" int hd_dqn_loss_compute_cuda(const struct hd_dqn_loss *loss, const int64_t *used,
                                        float *dq, float *td2, struct hd_dqn_sums *sums_p,
                                        void *stream)
{
    return HD_LAUNCH(dqn_rows, 1, HD_ROW_THREADS, stream, *loss, used, dq, td2, sums_p);
}
