/* SPDX-License-Identifier: Apache-2.0 */
/* Type `transition_block`: what one collect of one shard yields: its policy.collect.n_sample
 * transitions, by frames, and every frame that its envs showed meanwhile, also of steps whose
 * transitions were dropped or are still to come. */
#ifndef HD_TASKS_TYPES_COLLECT_TRANSITION_BLOCK_H
#define HD_TASKS_TYPES_COLLECT_TRANSITION_BLOCK_H

#include "kernels/replay/transitions.h"
#include "tasks/registry.h"

extern const struct hd_type hd_type_transition_block;

struct hd_transition_block_shape {
    int64_t envs;     /* E: env.collector_env_num */
    int64_t fragment; /* L: steps of an env that are handed on together, ceil(n_sample / E) */
    int64_t n_sample; /* transitions */
    int64_t nstep;
    int64_t frame_bytes;
    int64_t frames_of_env; /* no collect shows more frames of one env */
    int64_t frames;        /* nor of all: the room there is */
};

/* The arrays of an instance. */
struct hd_transition_block {
    int64_t *n_frames; /* [1] */
    int64_t *first;    /* [E]: number of the env's first frame here */
    void *transitions; /* block of n_sample, in the order in which fragments were completed */
    int32_t *env; /* [frames]: which env showed it; in the order shown, 0 where there is none */
    char *frames; /* [frames][frame_bytes] */
};

/* The shape that the run file asks for. */
struct hd_transition_block_shape hd_transition_block_shape_read(const struct hd_config *config);

/* The shape of a value of type transition_block, and the arrays of one instance. */
const struct hd_transition_block_shape *hd_transition_block_get_shape(const struct hd_spec *spec);
struct hd_transition_block hd_transition_block_get(const struct hd_transition_block_shape *shape,
                                                   void *data);

/* Empties an instance, whatever it held. */
void hd_transition_block_clear(const struct hd_transition_block_shape *shape, void *data);

#endif
