/* SPDX-License-Identifier: Apache-2.0 */
/* Values, advantages and returns of the samples of an on-policy collect on a GPU, for the verb
 * `compute_advantages` (docs/di-engine.md 3.4). Thread safe; the functions only launch kernels and
 * return HD_OK or HD_ERR_DEVICE (logged). */
#pragma once

#include "kernels/common/moments.h"
#include "kernels/rollout/steps.h"

/* Copies the last number of each row of out[rows][outputs] to value[rows], in device memory.
 * Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_advantages_gather_values_cuda(const float *out, int64_t rows, int64_t outputs, float *value,
                                     void *stream);

/* All arrays are in device memory. N is the number of samples of `steps`. */
struct hd_advantages_args {
    struct hd_steps steps;
    float gamma, lambda;
    const float *value;       /* [N] values by the net, in its units */
    const int32_t *after;     /* [capacity] from hd_steps_find_bootstraps_cuda */
    const float *after_value; /* [capacity] values of the observations after these samples */
    int64_t capacity;
    /* The unit of rewards in units of the net: the deviation sqrt(squares / count + epsilon) by
     * these moments of one number, or sqrt(1 + epsilon) while they count no samples; 1 if
     * unit.count is NULL. */
    struct hd_moments unit;
    double epsilon;
    float *work;                              /* hd_advantages_get_work_bytes bytes */
    float *advantage, *target, *value_before; /* [N] in the arrays of the type `advantages` */
    struct hd_moments
        returns; /* moments of the returns in units of rewards; count NULL: not computed */
};

/* Returns the bytes of work memory for n samples. */
int64_t hd_advantages_get_work_bytes(int64_t n);

/* Fills advantage, target, value_before and returns with the bits of the verb on a CPU, except that
 * the sums of `returns` are added in another order (hd_moments_compute_cuda). Returns HD_OK or
 * HD_ERR_DEVICE (logged). */
int hd_advantages_compute_cuda(const struct hd_advantages_args *args, void *stream);
