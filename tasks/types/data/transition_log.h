/* SPDX-License-Identifier: Apache-2.0 */
/* Type `transition_log`: what a group of envs did in so many steps each, with every frame that is
 * needed to tell it: one file of a data set (runtime/io/dataset.h). Its verb `record` declares how
 * long it is. */
#ifndef HD_TASKS_TYPES_DATA_TRANSITION_LOG_H
#define HD_TASKS_TYPES_DATA_TRANSITION_LOG_H

#include "tasks/registry.h"
#include "tasks/types/collect/obs.h"

extern const struct hd_type hd_type_transition_log;

/* N transitions are recorded in rounds, each as long as an instance, the last one perhaps shorter.
 * Env e of E has N / E of them, the first N mod E envs one more, so that how long episodes last
 * decides nothing about who is recorded. */
struct hd_transition_log_shape {
    int64_t envs;        /* E: env.collector_env_num */
    int64_t transitions; /* N */
    int64_t rounds;
    int64_t steps; /* S: of each env in a round */
    struct hd_obs_shape obs;
    int64_t frames; /* room */
};

/* The arrays of an instance; K frames are an observation. Frames are numbered as they were shown.
 */
struct hd_transition_log {
    int64_t *played;         /* [1]: steps so far */
    int64_t *n_frames;       /* [1] */
    int64_t *episodes;       /* [1]: that ended in this round */
    double *returns;         /* [1]: of these, their sum */
    int32_t *present;        /* [E][K]: frames of the envs' observations now */
    int32_t *obs, *next_obs; /* [E][S][K] */
    int32_t *action;         /* [E][S] */
    int32_t *episode;        /* [E][S]: number of the env's episode */
    float *reward;           /* [E][S] */
    uint8_t *done;           /* [E][S] */
    uint8_t *truncated;      /* [E][S] */
    char *frame;             /* [frames][frame_bytes] */
};

/* For a verb's `declare`: an instance of `spec` is a round of N transitions, of about so many bytes
 * of frames. Does nothing when that was declared before. */
int hd_transition_log_declare(const struct hd_setup *setup, struct hd_spec *spec,
                              int64_t transitions, int64_t round_bytes);

/* The shape of a value of type transition_log, and the arrays of one instance. */
const struct hd_transition_log_shape *hd_transition_log_get_shape(const struct hd_spec *spec);
struct hd_transition_log hd_transition_log_get(const struct hd_transition_log_shape *shape,
                                               void *data);

#endif
