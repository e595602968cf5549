/* SPDX-License-Identifier: Apache-2.0 */
/* The steps and frames of an on-policy collect on a GPU, and observations assembled from them.
 * Steps, samples and the arrays of a group are those of the type `trajectories`
 * (tasks/types/collect/trajectories.h). Thread safe; the CUDA functions only launch kernels and
 * return HD_OK or HD_ERR_DEVICE (logged). */
#pragma once

#include "runtime/base/inline.h"

#include <stdint.h>

/* Sample i of the collect is sample i % Q of group i / Q. The offsets `at` of arrays count bytes
 * from the start of the group. */
struct hd_steps {
    const char *data; /* the groups, device memory, 64-byte aligned */
    int64_t groups,
        group_bytes;       /* G; bytes from one group's start to the next one's, a multiple of 64 */
    int64_t samples;       /* Q: samples of a group; fewer than 2^31 in all groups together */
    int64_t steps, frames; /* T, F: steps and frames of an env */
    int64_t stack, frame_bytes; /* frames of an observation, oldest first */
    int64_t logits, dims;       /* of a step; numbers of an action */
    struct {
        int64_t row;              /* int32 [Q]: number of each sample's step, env * T + t */
        int64_t end;              /* float [Q]: 1 where a fragment or an episode ends */
        int64_t frame, frame_age; /* int32 [E][T] */
        int64_t action;           /* numbers [E][T][dims] */
        int64_t reward, done;     /* float [E][T] */
        int64_t logit;            /* float [E][T][logits] */
        int64_t frames;           /* [E][F][frame_bytes] */
    } at;
};

/* -- One sample -------------------------------------------------------------------------------- */

/* Returns the start of a sample's group. */
HD_INLINE const char *hd_steps_get_group(const struct hd_steps *steps, int64_t sample)
{
    return steps->data + (uint32_t)sample / (uint32_t)steps->samples * steps->group_bytes;
}

/* Returns the number of a sample's step in its group. */
HD_INLINE int64_t hd_steps_get_row(const struct hd_steps *steps, int64_t sample)
{
    const int32_t *row = (const int32_t *)(hd_steps_get_group(steps, sample) + steps->at.row);
    return row[(uint32_t)sample % (uint32_t)steps->samples];
}

/* Returns 1 if a sample ends its fragment or its episode, else 0. */
HD_INLINE float hd_steps_get_end(const struct hd_steps *steps, int64_t sample)
{
    const float *end = (const float *)(hd_steps_get_group(steps, sample) + steps->at.end);
    return end[(uint32_t)sample % (uint32_t)steps->samples];
}

/* Returns frame k, 0 … stack - 1, of a sample's observation (ahead = 1: of the next one). If the
 * episode is younger than the observation, its first frame is repeated. */
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

/* Assembles obs[rows][stack frames] in device memory: row i is the observation of sample first + i
 * population / rows. With population = rows these are successive samples, else samples at equal
 * distances among `population` ones. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_steps_gather_obs_cuda(const struct hd_steps *steps, int64_t first, int64_t population,
                             int64_t rows, char *obs, void *stream);

/* Writes after[capacity] in device memory: the samples, ascending, whose next observation belongs
 * to no other sample and has a value, because they end fragments but not episodes; then -1.
 * `capacity` must suffice. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_steps_find_bootstraps_cuda(const struct hd_steps *steps, int32_t *after, int64_t capacity,
                                  void *stream);

/* Assembles obs[capacity][stack frames] in device memory: the observations after those samples;
 * sample 0's where after[] is -1. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_steps_gather_bootstrap_obs_cuda(const struct hd_steps *steps, const int32_t *after,
                                       int64_t capacity, char *obs, void *stream);
