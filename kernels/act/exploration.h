/* SPDX-License-Identifier: Apache-2.0 */
/* Epsilon-greedy exploration (docs/di-engine.md 2.7). Thread safe. */
#pragma once

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

/* Writes action[rows] = hd_argmax of each row of q[rows][ld], whose first n numbers count. `q` is
 * device memory, `action` device or shared memory. One launch. Returns HD_OK or HD_ERR_DEVICE
 * (logged). */
int hd_argmax_cuda(const float *q, int64_t ld, int64_t n, int64_t rows, int32_t *action,
                   void *stream);
