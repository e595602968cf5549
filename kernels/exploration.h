/* SPDX-License-Identifier: Apache-2.0 */
/* Decay of epsilon over env steps (spec 2.7). Thread safe. */
#ifndef HD_KERNELS_EXPLORATION_H
#define HD_KERNELS_EXPLORATION_H

#include <stdbool.h>

struct hd_epsilon {
    bool linear; /* else exponential */
    double start, end;
    double decay; /* env steps: to the end, or of the exponential */
};

/* Epsilon after `env_step` steps. */
double hd_epsilon_at(const struct hd_epsilon *epsilon, double env_step);

#endif
