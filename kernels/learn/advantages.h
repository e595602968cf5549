/* SPDX-License-Identifier: Apache-2.0 */
/* Values, advantages and returns of the samples of an on-policy collect on a GPU, as the verb
 * `targets` has them (spec 3.4). Thread safe; launches only. */
#ifndef HD_KERNELS_LEARN_ADVANTAGES_H
#define HD_KERNELS_LEARN_ADVANTAGES_H

#include "kernels/common/moments.h"
#include "kernels/rollout/steps.h"

/* value[rows]: the last one of each row of out[rows][outputs]; device memory. */
int hd_advantages_gather_values_cuda(const float *out, int64_t rows, int64_t outputs, float *value,
                                     void *stream);

/* All arrays are in device memory. N samples are those of `steps`. */
struct hd_advantages_args {
    struct hd_steps steps;
    float gamma, lambda;
    const float *value;       /* [N] the net's, in its units */
    const int32_t *after;     /* [capacity] from hd_steps_find_bootstraps_cuda */
    const float *after_value; /* [capacity] of the observations after these samples */
    int64_t capacity;
    /* Rewards have `unit` times the net's units: the deviation sqrt(squares / count + epsilon) of
     * these statistics of one number, sqrt(1 + epsilon) while they count none; or 1, where
     * unit.count is NULL. */
    struct hd_moments unit;
    double epsilon;
    float *work;                              /* hd_advantages_get_work_bytes */
    float *advantage, *target, *value_before; /* [N] as in the type `targets` */
    struct hd_moments returns; /* of the returns in the units of rewards; count NULL: none */
};

/* Bytes of work memory for n samples. */
int64_t hd_advantages_get_work_bytes(int64_t n);

/* Fills advantage, target, value_before and returns: the verb's bits, except that the sums of
 * `returns` are added up in another order (hd_moments_compute_cuda). */
int hd_advantages_compute_cuda(const struct hd_advantages_args *args, void *stream);

#endif
