/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/steps.cuh"

/* -- Observations ------------------------------------------------------------------------------ */

template <typename word>
static __global__ void copy_samples(const struct hd_steps steps, int64_t first, int64_t population,
                                    char *obs)
{
    HD_AWAIT_INPUTS();
    const int64_t row = blockIdx.x, sample = first + row * population / gridDim.x;
    hd_steps_copy<word>(&steps, sample, 0, obs + row * steps.stack * steps.frame_bytes);
}

extern "C" int hd_steps_gather_obs_cuda(const struct hd_steps *steps, int64_t first,
                                        int64_t population, int64_t rows, char *obs, void *stream)
{
    if (rows == 0)
        return HD_OK;
    return HD_LAUNCH_ROWS(copy_samples, steps, obs, rows, stream, *steps, first, population, obs);
}

template <typename word>
static __global__ void copy_after(const struct hd_steps steps, const int32_t *after, char *obs)
{
    HD_AWAIT_INPUTS();
    const int64_t row = blockIdx.x, sample = after[row];
    hd_steps_copy<word>(&steps, sample < 0 ? 0 : sample, sample >= 0,
                        obs + row * steps.stack * steps.frame_bytes);
}

extern "C" int hd_steps_gather_bootstrap_obs_cuda(const struct hd_steps *steps,
                                                  const int32_t *after, int64_t capacity, char *obs,
                                                  void *stream)
{
    if (capacity == 0)
        return HD_OK;
    return HD_LAUNCH_ROWS(copy_after, steps, obs, capacity, stream, *steps, after, obs);
}

/* -- Samples that observations come after ------------------------------------------------------ */
/* One block runs it. Each thread looks through a stretch of the samples, counts, learns from the
 * counts before it where to write, and looks again. */

enum { THREADS = 1024, WARPS = THREADS / 32 };

static __device__ bool is_after(const struct hd_steps *steps, int64_t sample)
{
    if (hd_steps_get_end(steps, sample) == 0)
        return false;
    const float *done = (const float *)(hd_steps_get_group(steps, sample) + steps->at.done);
    return done[hd_steps_get_row(steps, sample)] == 0;
}

/* Returns the sum of `local` over the threads before this one, and the sum over all in *total_p. */
static __device__ int sum_before(int local, int *total_p)
{
    __shared__ int warp_sum[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = local, before = 0, total = 0;
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(0xFFFFFFFF, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == 31)
        warp_sum[warp] = sum;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) {
        before += i < warp ? warp_sum[i] : 0;
        total += warp_sum[i];
    }
    *total_p = total;
    return before + sum - local;
}

static __global__ void find_after(const struct hd_steps steps, int32_t *after, int64_t capacity)
{
    HD_AWAIT_INPUTS();
    const int64_t n = steps.groups * steps.samples, each = (n + THREADS - 1) / THREADS;
    const int64_t lo = min(n, threadIdx.x * each), hi = min(n, lo + each);
    int local = 0, total;
    for (int64_t i = lo; i < hi; i++)
        local += is_after(&steps, i);
    int64_t at = sum_before(local, &total);
    for (int64_t i = lo; i < hi && local > 0; i++)
        if (is_after(&steps, i) && at < capacity)
            after[at++] = (int32_t)i;
    for (int64_t i = total + (int64_t)threadIdx.x; i < capacity; i += THREADS)
        after[i] = -1;
}

extern "C" int hd_steps_find_bootstraps_cuda(const struct hd_steps *steps, int32_t *after,
                                             int64_t capacity, void *stream)
{
    return HD_LAUNCH(find_after, 1, THREADS, stream, *steps, after, capacity);
}
