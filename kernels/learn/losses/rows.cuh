/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of kernels that process all rows of a batch in one thread block, because their sums need
 * a fixed order and batches are small. */
#pragma once

#include "kernels/common/cuda.cuh"

enum { HD_ROW_THREADS = 512 };

/* Returns how many of `rows` rows count: *used, clipped to the range, or all if `used` is NULL. */
static inline __device__ int64_t hd_rows_count_used(const int64_t *used, int64_t rows)
{
    const int64_t n = used ? *used : rows;
    return n < 0 ? 0 : n < rows ? n : rows;
}

static inline __device__ void hd_rows_zero(float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        row[i] = 0;
}

/* Returns to all HD_ROW_THREADS threads of the only block the sum of their `local` values, added by
 * `add` (into, other) in a fixed tree. All threads must call it. */
template <typename Sums, void add(Sums *, const Sums &)>
static __device__ Sums hd_rows_sum(const Sums &local)
{
    __shared__ Sums all[HD_ROW_THREADS];
    const int t = (int)threadIdx.x;
    all[t] = local;
    for (int half = HD_ROW_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            add(&all[t], all[t + half]);
    }
    __syncthreads();
    const Sums sum = all[0];
    __syncthreads();
    return sum;
}
