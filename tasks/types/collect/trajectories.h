/* SPDX-License-Identifier: Apache-2.0 */
/* Type `trajectories`: what one on-policy collect of one shard yields. Each group of envs has a
 * group with the steps that its envs made, the frames that they showed, and its samples: those
 * steps, in the order in which their fragments were completed, that a learner takes. */
#ifndef HD_TASKS_TYPES_COLLECT_TRAJECTORIES_H
#define HD_TASKS_TYPES_COLLECT_TRAJECTORIES_H

#include "kernels/rollout/frame_upload.h"
#include "kernels/rollout/steps.h"
#include "tasks/registry.h"
#include "tasks/types/collect/obs.h"

extern const struct hd_type hd_type_trajectories;

struct hd_trajectories_shape {
    int64_t groups;   /* G: groups */
    int64_t envs;     /* E: of a group */
    int64_t samples;  /* Q: of a group, policy.collect.n_sample / G */
    int64_t fragment; /* L: samples of an env that are completed together, at most */
    int64_t steps;    /* T: no env makes more in a collect */
    int64_t actions;
    int64_t frames; /* F: no env shows more in a collect, the observation it starts from included */
    bool segment_at_done; /* an episode's end completes a fragment */
    struct hd_obs_shape obs;
};

/* The arrays of a group. A step is numbered env * T + its number in this collect. */
struct hd_trajectories {
    int64_t *made;    /* [1]: samples so far, those beyond Q included */
    int64_t *forward; /* [1]: steps of all envs so far */
    int64_t *ended;   /* [1]: episodes so far that ended */
    int64_t *shown;   /* [E]: frames so far */
    int64_t *age;     /* [E]: frames of its present observation's episode before the last one, at
                         most those of an observation */
    int64_t *pending; /* [E]: steps of its unfinished fragment */
    double *ended_return, *ended_steps; /* [E T], in order of their ends */
    int32_t *row;                       /* [Q]: number of each sample's step */
    float *end;                         /* [Q]: 1 where a fragment or an episode ends */
    int32_t *frame;                     /* [E][T]: the step's obs ends with this frame of its env */
    int32_t *frame_age;                 /* [E][T]: frames of its episode before that one */
    int32_t *action;                    /* [E][T] */
    float *reward, *done;               /* [E][T] */
    float *logit;                       /* [E][T][actions]: those that the action was drawn from */
    char *frames;                       /* [E][F][frame_bytes] */
};

/* The shape of a value of type trajectories, and the arrays of a group of an instance. */
const struct hd_trajectories_shape *hd_trajectories_get_shape(const struct hd_spec *spec);
struct hd_trajectories hd_trajectories_get(const struct hd_spec *spec, void *data, int64_t group);

/* For GPUs: where all groups of an instance lie, and the bytes of a group before its frames, and
 * before its samples: what was counted, and the episodes that ended. */
struct hd_steps hd_trajectories_get_steps(const struct hd_spec *spec, const void *data);
int64_t hd_trajectories_count_header_bytes(const struct hd_spec *spec);
int64_t hd_trajectories_get_counter_bytes(const struct hd_spec *spec);

/* Empties a group, whatever it held. */
void hd_trajectories_clear(const struct hd_spec *spec, void *data, int64_t group);

/* The frames of a group as hd_frame_upload_next fills them; what a GPU has of them is left NULL. */
struct hd_frame_upload hd_trajectories_get_show(const struct hd_trajectories_shape *shape,
                                                const struct hd_trajectories *group);

/* Copies the observation of step `step` (of the one after it: ahead = 1) to obs[obs_bytes]. */
void hd_trajectories_copy_obs(const struct hd_trajectories_shape *shape,
                              const struct hd_trajectories *group, int64_t step, int ahead,
                              void *obs);

#endif
