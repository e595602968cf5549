/* SPDX-License-Identifier: Apache-2.0 */
/* What an on-policy collect yields, on a GPU: where its steps and frames lie, and observations put
 * together from them. Steps, samples and the arrays of a group are those of the type `trajectories`
 * (tasks/types/collect/trajectories.h). Thread safe; launches only. */
#ifndef HD_KERNELS_ROLLOUT_STEPS_H
#define HD_KERNELS_ROLLOUT_STEPS_H

#include "runtime/base/inline.h"

#include <stdint.h>

/* Sample i of the collect is sample i % Q of group i / Q. An array of a group starts so many bytes
 * behind the group's start. */
struct hd_steps {
    const char *data;            /* the groups, device memory, 64-byte aligned */
    int64_t groups, group_bytes; /* G; from one group's start to the next one's, whole 64 bytes */
    int64_t samples;             /* Q: of a group; all together fewer than 2^31 */
    int64_t steps, frames;       /* T, F: of an env */
    int64_t stack, frame_bytes;  /* frames of an observation, oldest first */
    int64_t actions;
    struct {
        int64_t row;              /* int32 [Q]: number of each sample's step, env * T + t */
        int64_t end;              /* float [Q]: 1 where a fragment or an episode ends */
        int64_t frame, frame_age; /* int32 [E][T] */
        int64_t action;           /* int32 [E][T] */
        int64_t reward, done;     /* float [E][T] */
        int64_t logit;            /* float [E][T][actions] */
        int64_t frames;           /* [E][F][frame_bytes] */
    } at;
};

/* -- One sample -------------------------------------------------------------------------------- */

/* The start of a sample's group. */
HD_INLINE const char *hd_steps_get_group(const struct hd_steps *steps, int64_t sample)
{
    return steps->data + (uint32_t)sample / (uint32_t)steps->samples * steps->group_bytes;
}

/* The number of a sample's step in its group. */
HD_INLINE int64_t hd_steps_get_row(const struct hd_steps *steps, int64_t sample)
{
    const int32_t *row = (const int32_t *)(hd_steps_get_group(steps, sample) + steps->at.row);
    return row[(uint32_t)sample % (uint32_t)steps->samples];
}

/* 1 where a sample ends its fragment or its episode, else 0. */
HD_INLINE float hd_steps_get_end(const struct hd_steps *steps, int64_t sample)
{
    const float *end = (const float *)(hd_steps_get_group(steps, sample) + steps->at.end);
    return end[(uint32_t)sample % (uint32_t)steps->samples];
}

/* Frame k, 0 … stack - 1, of a sample's observation (of the one after it: ahead = 1). Where the
 * episode is younger than the observation, its first frame stands in. */
HD_INLINE const char *hd_steps_find_frame(const struct hd_steps *steps, int64_t sample, int ahead,
                                          int64_t k)
{
    const char *group = hd_steps_get_group(steps, sample);
    const int64_t step = hd_steps_get_row(steps, sample);
    const int64_t env = (uint32_t)step / (uint32_t)steps->steps;
    const int64_t last = ((const int32_t *)(group + steps->at.frame))[step];
    const int64_t first = last - ((const int32_t *)(group + steps->at.frame_age))[step];
    const int64_t frame = last + ahead - steps->stack + 1 + k;
    return group + steps->at.frames +
           (env * steps->frames + (frame > first ? frame : first)) * steps->frame_bytes;
}

/* -- Observations ------------------------------------------------------------------------------ */

/* obs[rows][stack frames], device memory: row i is that of sample first + i over / rows: of `rows`
 * samples in a row (over = rows), or at equal distances among `over` ones. */
int hd_steps_gather_obs_cuda(const struct hd_steps *steps, int64_t first, int64_t over,
                             int64_t rows, char *obs, void *stream);

/* after[capacity], device memory: the samples, ascending, whose next observation no other sample
 * has and that has a value: fragments end with them, episodes do not. Then -1. There must be
 * enough. */
int hd_steps_find_bootstraps_cuda(const struct hd_steps *steps, int32_t *after, int64_t capacity,
                                  void *stream);

/* obs[capacity][stack frames], device memory: the observations after those samples; where after[]
 * is -1, sample 0's. */
int hd_steps_gather_bootstrap_obs_cuda(const struct hd_steps *steps, const int32_t *after,
                                       int64_t capacity, char *obs, void *stream);

#endif
