/* SPDX-License-Identifier: Apache-2.0 */
/* Decay of epsilon over env steps, and actions by it (spec 2.7). Thread safe. */
#ifndef HD_KERNELS_ACT_EXPLORATION_H
#define HD_KERNELS_ACT_EXPLORATION_H

#include "runtime/base/rng.h"

#include <stdbool.h>

struct hd_epsilon {
    bool linear; /* else exponential */
    double start, end;
    double decay; /* env steps: to the end, or of the exponential */
};

/* Epsilon after `env_step` steps. */
double hd_epsilon_compute(const struct hd_epsilon *epsilon, double env_step);

/* action[rows] for rows of q[rows][ld], of which the first n count: in all rows the largest one's
 * index (hd_argmax), if the uniform number of item `coin` is above epsilon; else row i's is uniform
 * in [0, n) by item coin + 1 + i. q is device memory, action the device's or shared; the CPU's
 * actions. One launch, whose arguments change from step to step: not to be captured. */
int hd_epsilon_greedy_choose_cuda(const float *q, int64_t ld, int64_t n, int64_t rows,
                                  double epsilon, struct hd_rng rng, uint32_t coin, int32_t *action,
                                  void *stream);

/* action[rows]: hd_argmax of each row of q[rows][ld], of which the first n count. q is device
 * memory, action the device's or shared. One launch. */
int hd_argmax_cuda(const float *q, int64_t ld, int64_t n, int64_t rows, int32_t *action,
                   void *stream);

#endif
