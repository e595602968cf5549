/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of episodes that a collect keeps, against a list of all of them. */
#pragma once

#include "tests/tasks/world.h"

#include <math.h>

/* The last ones of n episodes count. */
static inline void check_episodes(const struct world *w, const double *returns,
                                  const double *lengths, int64_t n)
{
    enum { WINDOW = 20 };
    const int64_t from = n > WINDOW ? n - WINDOW : 0;
    const double count = (double)(n - from);
    double sum = 0, squares = 0, length = 0, max = -1e9, min = 1e9;
    ck_assert_int_gt(n, 0);
    for (int64_t i = from; i < n; i++) {
        sum += returns[i];
        squares += returns[i] * returns[i];
        length += lengths[i];
        max = fmax(max, returns[i]);
        min = fmin(min, returns[i]);
    }
    ck_assert_double_eq_tol(world_field(w, "episodes", "reward_mean"), sum / count, 1e-12);
    ck_assert_double_eq_tol(world_field(w, "episodes", "avg_envstep_per_episode"), length / count,
                            1e-12);
    ck_assert_double_eq_tol(world_field(w, "episodes", "reward_square"), squares / count, 1e-9);
    ck_assert_double_eq(world_field(w, "episodes", "reward_max"), max);
    ck_assert_double_eq(world_field(w, "episodes", "reward_min"), min);
}
