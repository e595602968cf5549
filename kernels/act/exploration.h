/* SPDX-License-Identifier: Apache-2.0 */
/* Epsilon-greedy exploration (docs/di-engine.md 2.7). Thread safe; the CUDA forms only launch a
 * kernel and return HD_OK or HD_ERR_DEVICE (logged). */
#ifndef HD_KERNELS_ACT_EXPLORATION_H
#define HD_KERNELS_ACT_EXPLORATION_H

#include "runtime/base/rng.h"

#include <stdbool.h>

struct hd_epsilon {
    bool linear; /* false: the decay is exponential */
    double start, end;
    double
        decay; /* environment steps: until `end` if linear, else the constant of the exponential */
};

/* Returns epsilon after `env_step` environment steps. */
double hd_epsilon_compute(const struct hd_epsilon *epsilon, double env_step);

/* Chooses action[rows] from q[rows][ld], whose first n numbers of each row count. If the uniform
 * number of item `coin` of rng is above epsilon, every row gets the index of its largest number
 * (hd_argmax); else row i gets a number uniform in [0, n) drawn as item coin + 1 + i. `q` is device
 * memory, `action` device or shared memory; actions are those of the CPU. One launch, whose
 * arguments change from step to step: it must not be captured in a CUDA graph. Returns HD_OK or
 * HD_ERR_DEVICE (logged). */
int hd_epsilon_greedy_choose_cuda(const float *q, int64_t ld, int64_t n, int64_t rows,
                                  double epsilon, struct hd_rng rng, uint32_t coin, int32_t *action,
                                  void *stream);

/* Writes action[rows] = hd_argmax of each row of q[rows][ld], whose first n numbers count. `q` is
 * device memory, `action` device or shared memory. One launch. Returns HD_OK or HD_ERR_DEVICE
 * (logged). */
int hd_argmax_cuda(const float *q, int64_t ld, int64_t n, int64_t rows, int32_t *action,
                   void *stream);

#endif
