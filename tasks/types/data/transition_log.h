/* SPDX-License-Identifier: Apache-2.0 */
/* Type `transition_log`: all transitions of an environment group in a number of steps, with their
 * frames: the content of one file of a data set (runtime/io/dataset.h). The verb `record` declares
 * how long it is. Thread safe. */
#pragma once

#include "kernels/envs/actions.h"
#include "tasks/base/registry.h"
#include "tasks/types/base/obs.h"

extern const struct hd_type hd_type_transition_log;

/* N transitions are recorded in rounds, each filling an instance; the last round may be shorter.
 * Each of E envs has N / E of them, the first N mod E envs one more, so that the length of episodes
 * does not decide which envs are recorded. */
struct hd_transition_log_shape {
    int64_t envs;        /* E: env.collector_env_num */
    int64_t transitions; /* N */
    int64_t rounds;
    int64_t steps; /* S: of each env in a round */
    struct hd_obs_shape obs;
    struct hd_env_actions actions;
    int64_t frames; /* capacity */
};

/* The arrays of an instance; an observation is K frames. Frames are numbered in the order in which
 * they were shown. */
struct hd_transition_log {
    int64_t *played;                /* [1]: steps so far */
    int64_t *n_frames;              /* [1] */
    int64_t *episodes;              /* [1]: that ended in this round */
    double *returns;                /* [1]: sum of the returns of these */
    int32_t *present;               /* [E][K]: frames of the current observations */
    int32_t *obs, *next_obs;        /* [E][S][K] */
    union hd_action_number *action; /* [E][S][dims] */
    int32_t *episode;               /* [E][S]: number of the env's episode */
    float *reward;                  /* [E][S] */
    uint8_t *done;                  /* [E][S] */
    uint8_t *truncated;             /* [E][S] */
    char *frame;                    /* [frames][frame_bytes] */
};

/* Gives `spec` its shape, from a verb's `declare`: `transitions` in rounds of about round_bytes of
 * frames. Does nothing when that was declared before. Returns HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT
 * (in setup->diag) when another number of transitions was. */
int hd_transition_log_declare(const struct hd_setup *setup, struct hd_spec *spec,
                              int64_t transitions, int64_t round_bytes);

/* Return the shape of a value of type transition_log, and the arrays of an instance. */
const struct hd_transition_log_shape *hd_transition_log_get_shape(const struct hd_spec *spec);
struct hd_transition_log hd_transition_log_get(const struct hd_transition_log_shape *shape,
                                               void *data);
