/* SPDX-License-Identifier: Apache-2.0 */
/* Transitions of envs in two forms: by frames, as a collect yields and a replay ring keeps them,
 * and in rows, as a loss reads a batch. An env's frames are numbered from 0 in the order in which
 * it showed them, including the first frames of episodes. An observation is identified by its last
 * frame and consists of the `stack` frames up to it, oldest first; if the episode is younger than
 * that, its first frame replaces those before it. So each frame is kept only once. Thread safe on
 * different memory. */
#pragma once

#include "kernels/envs/actions.h"
#include "runtime/base/inline.h"
#include "runtime/base/numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- By frames --------------------------------------------------------------------------------- */

struct hd_transition {
    int64_t frame; /* last frame of obs */
    int32_t env;
    int32_t age;   /* frames of the same episode before that frame */
    int32_t ahead; /* the last frame of next_obs is frame + ahead, in the same episode; 1 … nstep */
    float done;    /* 1 if next_obs is terminal, else 0 */
    float
        value_gamma; /* factor of the value of next_obs (docs/di-engine.md 2.4); 0 if nstep is 1 */
    float reward[];  /* [nstep], zero beyond the end of the episode or fragment; then come the
                        `dims` numbers of the action taken at obs */
};

/* Returns the action of a transition. */
HD_INLINE union hd_action_number *hd_transition_get_action(const struct hd_transition *transition,
                                                           int64_t nstep)
{
    return (union hd_action_number *)(transition->reward + nstep);
}

/* Returns the bytes of one transition in a block, a multiple of 8. */
HD_INLINE int64_t hd_transition_get_bytes(int64_t nstep, int64_t dims)
{
    const int64_t bytes = (int64_t)offsetof(struct hd_transition, reward) + (nstep + dims) * 4;
    return (bytes + 7) / 8 * 8;
}

/* Returns the i-th transition of a block, which is 8-byte aligned. */
HD_INLINE struct hd_transition *hd_transition_get(const void *block, int64_t nstep, int64_t dims,
                                                  int64_t i)
{
    return (struct hd_transition *)((char *)block + i * hd_transition_get_bytes(nstep, dims));
}

/* Checks a transition that was read from a file, number `i` of envs with `stack` frames in an
 * observation; one that was never filled is all zeros. Returns HD_OK, or HD_ERR_FORMAT with a
 * sentence in `message` (not logged). */
int hd_transition_check(const struct hd_transition *transition, int64_t i, int64_t nstep,
                        int64_t stack, int64_t envs, const struct hd_env_actions *actions,
                        char message[HD_NUMBERS_MESSAGE]);

/* -- In rows: a struct of arrays in one block of plain memory ---------------------------------- */

struct hd_transition_shape {
    int64_t rows;
    int64_t obs_bytes;    /* bytes of one observation */
    int64_t nstep;        /* rewards of one transition */
    int64_t dims;         /* numbers of an action */
    bool has_value_gamma; /* each row has its own bootstrap factor (nstep > 1,
                             docs/di-engine.md 2.4) */
};

struct hd_transitions {
    void *obs;          /* [rows][obs_bytes], directly followed by next_obs */
    void *next_obs;     /* [rows][obs_bytes]: the observation nstep steps later */
    float *reward;      /* [nstep][rows], zero beyond the end of an episode */
    float *done;        /* [rows]: 1 if next_obs is terminal, else 0 */
    float *value_gamma; /* [rows]: factor of the value of next_obs; NULL if the shape has none */
    union hd_action_number *action; /* [rows][dims] */
};

/* Returns the bytes of the block. */
int64_t hd_transitions_get_bytes(const struct hd_transition_shape *shape);

/* Returns the addresses of the arrays in a block; all but next_obs are 64-byte aligned if `block`
 * is. */
struct hd_transitions hd_transitions_lay_out(const struct hd_transition_shape *shape, void *block);
