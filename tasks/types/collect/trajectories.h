/* SPDX-License-Identifier: Apache-2.0 */
/* Type `trajectories`: the result of an on-policy collect of one shard. An instance has a group of
 * arrays for each environment group: the steps that its envs made, the frames that they showed, and
 * its samples, which are the steps that a learner uses, in the order in which their fragments were
 * completed. Thread safe for different groups. */
#pragma once

#include "kernels/envs/actions.h"
#include "kernels/rollout/frame_upload.h"
#include "kernels/rollout/steps.h"
#include "tasks/base/registry.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/sequences.h"

extern const struct hd_type hd_type_trajectories;

struct hd_trajectories_shape {
    int64_t groups;   /* G: environment groups */
    int64_t envs;     /* E: of a group */
    int64_t samples;  /* Q: of a group, policy.collect.n_sample / G */
    int64_t fragment; /* L: most steps of a fragment */
    int64_t steps;    /* T: most steps of an env in a collect */
    struct hd_env_actions actions;
    int64_t logits; /* from which an action is drawn (kernels/envs/actions.h) */
    int64_t frames; /* F: most frames of an env in a collect, with those of its first observation */
    bool segment_at_done; /* the end of an episode completes a fragment */
    struct hd_obs_shape obs;
    struct hd_sequences sequences; /* of a recurrent net; else of one step, without a state */
};

/* The arrays of a group. Step t of env e in this collect has number e T + t. */
struct hd_trajectories {
    int64_t *made;    /* [1]: samples so far, also those beyond Q, which are dropped */
    int64_t *forward; /* [1]: steps of all envs so far */
    int64_t *ended;   /* [1]: episodes so far that ended */
    int64_t *shown;   /* [E]: frames so far */
    int64_t *age;     /* [E]: frames that the current episode has before its last one, at most those
                         of an observation */
    int64_t *pending; /* [E]: steps of the env's unfinished fragment */
    double *ended_return, *ended_steps; /* [E T]: of ended episodes, in the order of their ends */
    int32_t *row;                       /* [Q]: number of each sample's step */
    float *end;                         /* [Q]: 1 where a fragment or an episode ends */
    int32_t *frame;                     /* [E][T]: last frame of the observation before the step */
    int32_t *frame_age;                 /* [E][T]: frames that its episode has before that one */
    union hd_action_number *action;     /* [E][T][dims] */
    float *reward, *done;               /* [E][T] */
    float *logit;                       /* [E][T][logits]: that the action was sampled from */
    float *value; /* [E][T]: of the observation; undefined where a GPU acts and CPUs step */
    float
        *state; /* [E][T / sequences.steps][sequences.state]: before the first step of a sequence */
    char *frames; /* [E][F][frame_bytes] */
};

/* Return the shape of a value of type trajectories, and the arrays of a group of an instance. */
const struct hd_trajectories_shape *hd_trajectories_get_shape(const struct hd_spec *spec);
struct hd_trajectories hd_trajectories_get(const struct hd_spec *spec, void *data, int64_t group);

/* Return, for GPUs, where the arrays of all groups of an instance lie; the bytes of a group before
 * its frames; and those before its samples, which hold counters and the episodes that ended. */
struct hd_steps hd_trajectories_get_steps(const struct hd_spec *spec, const void *data);
int64_t hd_trajectories_count_header_bytes(const struct hd_spec *spec);
int64_t hd_trajectories_get_counter_bytes(const struct hd_spec *spec);

/* Empties a group, whose content may be undefined. */
void hd_trajectories_clear(const struct hd_spec *spec, void *data, int64_t group);

/* Returns the frames of a group on the host, as hd_frame_upload_next fills them, without the copy
 * on a GPU (frames_here and here are NULL). */
struct hd_frame_upload hd_trajectories_get_show(const struct hd_trajectories_shape *shape,
                                                const struct hd_trajectories *group);

/* Returns the state before the first step of sequence `i` of an env's. */
float *hd_trajectories_get_state(const struct hd_trajectories_shape *shape,
                                 const struct hd_trajectories *group, int64_t env, int64_t i);

/* Returns whether an episode begins with step `step`, which is not the first one of its env. */
static inline bool hd_trajectories_begins(const struct hd_trajectories *group, int64_t step)
{
    return group->done[step - 1] != 0;
}

/* Copies the observation before step `step` (ahead = 0) or after it (ahead = 1) to obs[obs_bytes].
 */
void hd_trajectories_copy_obs(const struct hd_trajectories_shape *shape,
                              const struct hd_trajectories *group, int64_t step, int ahead,
                              void *obs);
