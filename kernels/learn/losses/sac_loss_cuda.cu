/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/learn/losses/rows.cuh"

extern "C" {
#include "kernels/learn/losses/sac_loss_internal.h"
}

/* -- Rows by themselves ------------------------------------------------------------------------ */

static __global__ void draw_rows(const struct hd_sac_draw draw, float *joined, float *log_prob,
                                 struct hd_squashed *drawn)
{
    HD_AWAIT_INPUTS();
    if (HD_ELEMENT < draw.rows)
        hd_sac_draw_row(&draw, HD_ELEMENT, joined, log_prob, drawn);
}

extern "C" int hd_sac_draw_actions_cuda(const struct hd_sac_draw *draw, float *joined,
                                        float *log_prob, struct hd_squashed *drawn, void *stream)
{
    return HD_LAUNCH(draw_rows, hd_cuda_count_blocks(draw->rows), HD_THREADS, stream, *draw, joined,
                     log_prob, drawn);
}

static __global__ void target_rows(const struct hd_sac_targets targets, const float *log_alpha,
                                   float *y)
{
    HD_AWAIT_INPUTS();
    if (HD_ELEMENT < targets.rows)
        y[HD_ELEMENT] = hd_sac_compute_target(&targets, expf(*log_alpha), HD_ELEMENT);
}

extern "C" int hd_sac_compute_targets_cuda(const struct hd_sac_targets *targets,
                                           const float *log_alpha, float *y, void *stream)
{
    return HD_LAUNCH(target_rows, hd_cuda_count_blocks(targets->rows), HD_THREADS, stream, *targets,
                     log_alpha, y);
}

static __global__ void choose_rows(int64_t rows, const float *q1, const float *q2, float *dq1,
                                   float *dq2)
{
    HD_AWAIT_INPUTS();
    const int64_t r = HD_ELEMENT;
    if (r >= rows)
        return;
    dq1[r] = q1[r] <= q2[r] ? 1.0f : 0.0f;
    dq2[r] = 1 - dq1[r];
}

extern "C" int hd_sac_choose_critic_cuda(int64_t rows, const float *q1, const float *q2, float *dq1,
                                         float *dq2, void *stream)
{
    return HD_LAUNCH(choose_rows, hd_cuda_count_blocks(rows), HD_THREADS, stream, rows, q1, q2, dq1,
                     dq2);
}

static __global__ void join_rows(const struct hd_sac_join join, float *joined, int64_t *used_p)
{
    HD_AWAIT_INPUTS();
    const int64_t width = join.obs + join.dims, r = HD_ELEMENT / width, i = HD_ELEMENT % width;
    if (r < join.rows)
        joined[HD_ELEMENT] = i < join.obs ? join.obs_rows[r * join.obs + i]
                                          : join.action[r * join.dims + i - join.obs];
    if (HD_ELEMENT == 0)
        *used_p = *join.used;
}

extern "C" int hd_sac_join_cuda(const struct hd_sac_join *join, float *joined, int64_t *used_p,
                                void *stream)
{
    return HD_LAUNCH(join_rows, hd_cuda_count_blocks(join->rows * (join->obs + join->dims)),
                     HD_THREADS, stream, *join, joined, used_p);
}

/* -- Rows and their sums ----------------------------------------------------------------------- */

static __device__ void add_critic_sums(struct hd_sac_critic_sums *into,
                                       const struct hd_sac_critic_sums &other)
{
    into->loss += other.loss;
    into->q += other.q;
    into->target += other.target;
}

static __global__ void critic_rows(int64_t rows, const int64_t *used_p, const float *q,
                                   const float *y, float *dq, struct hd_sac_critic_sums *sums_p)
{
    HD_AWAIT_INPUTS();
    const int64_t used = hd_rows_count_used(used_p, rows);
    struct hd_sac_critic_sums sums = {};
    for (int64_t r = threadIdx.x; r < rows; r += HD_ROW_THREADS)
        if (r < used)
            hd_sac_critic_add_row(q[r], y[r], &dq[r], &sums);
        else
            dq[r] = 0;
    sums = hd_rows_sum<struct hd_sac_critic_sums, add_critic_sums>(sums);
    if (threadIdx.x == 0)
        *sums_p = sums;
}

extern "C" int hd_sac_critic_compute_cuda(int64_t rows, const int64_t *used, const float *q,
                                          const float *y, float *dq,
                                          struct hd_sac_critic_sums *sums_p, void *stream)
{
    return HD_LAUNCH(critic_rows, 1, HD_ROW_THREADS, stream, rows, used, q, y, dq, sums_p);
}

static __device__ void add_sums(struct hd_sac_sums *into, const struct hd_sac_sums &other)
{
    into->loss += other.loss;
    into->log_prob += other.log_prob;
}

static __global__ void sac_rows(const struct hd_sac_loss loss, const int64_t *used_p,
                                const float *log_alpha, float *dout, struct hd_sac_sums *sums_p)
{
    HD_AWAIT_INPUTS();
    const int64_t used = hd_rows_count_used(used_p, loss.rows), width = 2 * loss.dims;
    const float alpha = expf(*log_alpha);
    struct hd_sac_sums sums = {};
    for (int64_t r = threadIdx.x; r < loss.rows; r += HD_ROW_THREADS)
        if (r < used)
            hd_sac_add_row(&loss, alpha, r, dout + r * width, &sums);
        else
            hd_rows_zero(dout + r * width, width);
    sums = hd_rows_sum<struct hd_sac_sums, add_sums>(sums);
    sums.alpha = alpha;
    if (threadIdx.x == 0)
        *sums_p = sums;
}

extern "C" int hd_sac_loss_compute_cuda(const struct hd_sac_loss *loss, const int64_t *used,
                                        const float *log_alpha, float *dout,
                                        struct hd_sac_sums *sums_p, void *stream)
{
    return HD_LAUNCH(sac_rows, 1, HD_ROW_THREADS, stream, *loss, used, log_alpha, dout, sums_p);
}
