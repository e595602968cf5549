/* SPDX-License-Identifier: Apache-2.0 */
/* Transitions of envs in two forms: by frames, as a collect yields and a replay ring keeps them,
 * and in rows, as a batch shows them to a loss.
 *
 * An env's frames are numbered from 0 in the order in which it showed them, the first frames of
 * episodes included. An observation is the run of `stack` frames that ends with the one it is named
 * by, oldest first; where the episode is younger than that, its first frame stands in for those
 * before it. So each frame needs to be kept only once. Thread safe on different memory. */
#ifndef HD_KERNELS_REPLAY_TRANSITIONS_H
#define HD_KERNELS_REPLAY_TRANSITIONS_H

#include <stdbool.h>
#include <stdint.h>

/* -- By frames --------------------------------------------------------------------------------- */

struct hd_transition {
    int64_t frame; /* obs ends with this frame of its env */
    int32_t env;
    int32_t age;       /* frames of the same episode before that one */
    int32_t ahead;     /* next_obs ends with frame + ahead of the same episode; 1 … nstep */
    int32_t action;    /* taken at obs */
    float done;        /* 1 where next_obs is terminal, else 0 */
    float value_gamma; /* factor of the value of next_obs (spec 2.4); 0 where nstep is 1 */
    float reward[];    /* [nstep], zero beyond the end of the episode or fragment */
};

/* Bytes of one in a block of them, a multiple of 8. */
int64_t hd_transition_get_bytes(int64_t nstep);

/* The i-th of a block, which is 8-byte aligned. */
struct hd_transition *hd_transition_get(const void *block, int64_t nstep, int64_t i);

/* -- In rows: a struct of arrays in one block of plain memory ---------------------------------- */

struct hd_transition_shape {
    int64_t rows;
    int64_t obs_bytes;    /* of one observation */
    int64_t nstep;        /* rewards of one transition */
    bool has_value_gamma; /* each row has its own bootstrap factor (nstep > 1, spec 2.4) */
};

struct hd_transitions {
    void *obs;          /* [rows][obs_bytes]; next_obs follows at once */
    void *next_obs;     /* [rows][obs_bytes]: the observation nstep steps later */
    float *reward;      /* [nstep][rows], zero beyond the end of an episode */
    float *done;        /* [rows]: 1 where next_obs is terminal, else 0 */
    float *value_gamma; /* [rows]: factor of the value of next_obs; NULL when the shape has none */
    int32_t *action;    /* [rows] */
};

/* Bytes of the block. */
int64_t hd_transitions_get_bytes(const struct hd_transition_shape *shape);

/* The arrays in a block, all but next_obs 64-byte aligned when `block` is. */
struct hd_transitions hd_transitions_lay_out(const struct hd_transition_shape *shape, void *block);

#endif
