/* SPDX-License-Identifier: Apache-2.0 */
/* Type `transition_block`: the result of an off-policy collect of one shard:
 * policy.collect.n_sample transitions, which name their frames by number, and every frame that the
 * envs showed, also in steps whose transitions were dropped or are not complete yet. Thread safe.
 */
#pragma once

#include "kernels/replay/transitions.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_transition_block;

struct hd_transition_block_shape {
    int64_t envs;     /* E: env.collector_env_num */
    int64_t fragment; /* L: most steps of a fragment, ceil(n_sample / E) */
    int64_t n_sample; /* transitions */
    int64_t nstep, stack;
    struct hd_env_actions actions;
    int64_t frame_bytes;
    int64_t frames_of_env; /* most frames of one env in a collect */
    int64_t frames;        /* most frames of all envs in a collect: the capacity */
};

/* The arrays of an instance. */
struct hd_transition_block {
    int64_t *n_frames; /* [1] */
    int64_t *first;    /* [E]: number of the env's first frame in this block */
    void *transitions; /* [n_sample], in the order in which fragments were completed */
    int32_t *env;      /* [frames]: the env that showed a frame; 0 beyond *n_frames */
    char *frames;      /* [frames][frame_bytes], in the order in which they were shown */
};

/* Returns the shape that the run file describes. */
struct hd_transition_block_shape hd_transition_block_shape_read(const struct hd_config *config);

/* Return the shape of a value of type transition_block, and the arrays of an instance. */
const struct hd_transition_block_shape *hd_transition_block_get_shape(const struct hd_spec *spec);
struct hd_transition_block hd_transition_block_get(const struct hd_transition_block_shape *shape,
                                                   void *data);

/* Empties an instance, whose content may be undefined. */
void hd_transition_block_clear(const struct hd_transition_block_shape *shape, void *data);
