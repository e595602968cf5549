/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/steps.cuh"

extern "C" {
#include "kernels/learn/advantages.h"
#include "kernels/learn/gae.h"
}

static __global__ void last_of_rows(const float *out, int64_t rows, int64_t outputs, float *value)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i < rows)
        value[i] = out[(i + 1) * outputs - 1];
}

extern "C" int hd_advantages_gather_values_cuda(const float *out, int64_t rows, int64_t outputs,
                                                float *value, void *stream)
{
    if (rows == 0)
        return HD_OK;
    return HD_LAUNCH(last_of_rows, hd_cuda_count_blocks(rows), HD_THREADS, stream, out, rows,
                     outputs, value);
}

/* Arrays with an element for each sample, in units of rewards. */
struct rows {
    float *value, *next_value, *reward, *done, *end;
};

extern "C" int64_t hd_advantages_get_work_bytes(int64_t n)
{
    return 5 * n * (int64_t)sizeof(float);
}

static struct rows rows_at(float *work, int64_t n)
{
    struct rows rows = {work, work + n, work + 2 * n, work + 3 * n, work + 4 * n};
    return rows;
}

static __device__ float unit_of(const struct hd_advantages_args *args)
{
    if (!args->unit.count)
        return 1;
    const double count = *args->unit.count;
    return (float)sqrt((count > 0 ? *args->unit.squares / count : 1) + args->epsilon);
}

/* Fills a sample's element. Its next value is that of the next sample, unless a fragment ends
 * here. */
static __device__ void fill_row(const struct hd_advantages_args *args, int64_t i, float unit,
                                const struct rows *rows)
{
    const char *group = hd_steps_get_group(&args->steps, i);
    const int64_t step = hd_steps_get_row(&args->steps, i);
    const float end = hd_steps_get_end(&args->steps, i);
    const float done = ((const float *)(group + args->steps.at.done))[step];
    rows->value[i] = args->value[i] * unit;
    rows->reward[i] = ((const float *)(group + args->steps.at.reward))[step];
    rows->done[i] = done;
    rows->end[i] = end;
    if (done != 0)
        rows->next_value[i] = 0;
    else if (end == 0)
        rows->next_value[i] = args->value[i + 1] * unit;
}

/* The threads after those of the samples fill in the values of observations after fragments. */
static __global__ void fill_rows(const struct hd_advantages_args args, int64_t n,
                                 const struct rows rows)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    const float unit = unit_of(&args);
    if (i < n)
        fill_row(&args, i, unit, &rows);
    else if (i - n < args.capacity && args.after[i - n] >= 0)
        rows.next_value[args.after[i - n]] = args.after_value[i - n] * unit;
}

/* Returns replace the rewards. */
static __global__ void finish_rows(const struct hd_advantages_args args, int64_t n,
                                   const struct rows rows)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i >= n)
        return;
    const float unit = unit_of(&args), value = rows.value[i], sum = value + args.advantage[i];
    rows.reward[i] = sum;
    args.target[i] = sum / unit;
    args.value_before[i] = value / unit;
}

extern "C" int hd_advantages_compute_cuda(const struct hd_advantages_args *args, void *stream)
{
    const int64_t n = args->steps.groups * args->steps.samples;
    const struct rows rows = rows_at(args->work, n);
    struct hd_gae gae = {n,           args->gamma, args->lambda, rows.value, rows.next_value,
                         rows.reward, rows.done,   rows.end};
    HD_TRY(HD_LAUNCH(fill_rows, hd_cuda_count_blocks(n + args->capacity), HD_THREADS, stream, *args,
                     n, rows));
    HD_TRY(hd_gae_compute_cuda(&gae, args->advantage, stream));
    HD_TRY(HD_LAUNCH(finish_rows, hd_cuda_count_blocks(n), HD_THREADS, stream, *args, n, rows));
    if (args->returns.count)
        return hd_moments_compute_cuda(rows.reward, n, 1, args->returns, stream);
    return HD_OK;
}
