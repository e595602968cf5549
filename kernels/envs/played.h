/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what an env plays of an evaluation, for CPUs and GPUs. Thread safe on different envs. */
#pragma once

#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stdint.h>

struct hd_played {
    uint64_t seed;     /* of the first episode */
    uint64_t seed_gap; /* from the seed of one episode to that of the next: 0 or 1 */
    int64_t episodes;  /* that the env is to play */
    int64_t ended;     /* of them */
    int64_t steps;     /* of those that ended */
    int64_t cut;       /* episodes that env.max_evaluator_step ended */
    int64_t present_steps;
    double present_return;
    double returns[]; /* [episodes], of those that ended */
};

/* Returns whether the env has played all its episodes. */
HD_INLINE bool hd_played_is_complete(const struct hd_played *played)
{
    return played->ended == played->episodes;
}

/* Returns the seed of the present episode. */
HD_INLINE uint64_t hd_played_get_seed(const struct hd_played *played)
{
    return played->seed + played->seed_gap * (uint64_t)played->ended;
}

/* Counts a step of the present episode, which ends if it is done or has max_steps steps. Returns
 * whether it ends. */
HD_INLINE bool hd_played_count(struct hd_played *played, double reward, bool done,
                               int64_t max_steps)
{
    const int64_t steps = ++played->present_steps;
    played->present_return += reward;
    if (!done && steps != max_steps)
        return false;
    played->returns[played->ended++] = played->present_return;
    played->steps += steps;
    played->cut += !done;
    played->present_steps = 0;
    played->present_return = 0;
    return true;
}
