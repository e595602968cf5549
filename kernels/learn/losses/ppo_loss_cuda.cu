/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/learn/losses/rows.cuh"

extern "C" {
#include "kernels/learn/losses/ppo_loss_internal.h"
}

typedef struct hd_ppo_sums sums_of_rows;

static __device__ void add_sums(sums_of_rows *into, const sums_of_rows &other)
{
    into->policy += other.policy;
    into->value += other.value;
    into->entropy += other.entropy;
    into->approx_kl += other.approx_kl;
    into->kl += other.kl;
    into->clipfrac += other.clipfrac;
    into->adv += other.adv;
    into->v += other.v;
    into->adv_max = other.adv_max > into->adv_max ? other.adv_max : into->adv_max;
    into->v_max = other.v_max > into->v_max ? other.v_max : into->v_max;
}

static __global__ void ppo_rows(const struct hd_ppo_loss given, const int64_t *used_p, float *dout,
                                sums_of_rows *sums_p)
{
    HD_AWAIT_INPUTS();
    const struct hd_ppo_loss loss = hd_ppo_read_scheduled(&given);
    const int64_t used = hd_rows_count_used(used_p, loss.batch), width = loss.logits + 1;
    sums_of_rows sums = hd_ppo_init_sums();
    for (int64_t b = threadIdx.x; b < loss.batch; b += HD_ROW_THREADS)
        if (b < used)
            hd_ppo_add_row(&loss, b, dout + b * width, &sums);
        else
            hd_rows_zero(dout + b * width, width);
    sums = hd_rows_sum<sums_of_rows, add_sums>(sums);
    sums.entropy_weight = loss.entropy_weight;
    if (threadIdx.x == 0)
        *sums_p = sums;
}

extern "C" int hd_ppo_loss_compute_cuda(const struct hd_ppo_loss *loss, const int64_t *used,
                                        float *dout, struct hd_ppo_sums *sums_p, void *stream)
{
    return HD_LAUNCH(ppo_rows, 1, HD_ROW_THREADS, stream, *loss, used, dout, sums_p);
}

static __device__ void add_two(double *into, const double &other)
{
    *into += other;
}

static __global__ void standardise_all(float *adv, const int64_t *n_p)
{
    HD_AWAIT_INPUTS();
    const int64_t n = *n_p;
    double sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < n; i += HD_ROW_THREADS)
        sum += adv[i];
    const double mean = n > 0 ? hd_rows_sum<double, add_two>(sum) / (double)n : 0;
    for (int64_t i = threadIdx.x; i < n; i += HD_ROW_THREADS)
        squares += (adv[i] - mean) * (adv[i] - mean);
    squares = hd_rows_sum<double, add_two>(squares);
    const double std = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    for (int64_t i = threadIdx.x; i < n; i += HD_ROW_THREADS)
        adv[i] = (float)((adv[i] - mean) / (std + 1e-8));
}

extern "C" int hd_standardise_cuda(float *adv, const int64_t *n, void *stream)
{
    return HD_LAUNCH(standardise_all, 1, HD_ROW_THREADS, stream, adv, n);
}
