/* SPDX-License-Identifier: Apache-2.0 */
/* Transitions of an env as a struct of arrays in one block of plain memory: what a collect yields,
 * a replay ring keeps and a batch shows to a loss. Thread safe on different memory. */
#ifndef HD_KERNELS_TRANSITIONS_H
#define HD_KERNELS_TRANSITIONS_H

#include <stdbool.h>
#include <stdint.h>

struct hd_transition_shape {
    int64_t rows;
    int64_t obs_size;     /* floats of one observation */
    int64_t nstep;        /* rewards of one transition */
    bool has_value_gamma; /* each row has its own bootstrap factor (nstep > 1, spec 2.4) */
};

struct hd_transitions {
    float *obs;         /* [rows][obs_size] */
    float *next_obs;    /* [rows][obs_size]: the observation nstep steps later */
    float *reward;      /* [nstep][rows], zero beyond the end of an episode */
    float *done;        /* [rows]: 1 where next_obs is terminal, else 0 */
    float *value_gamma; /* [rows]: factor of the value of next_obs; NULL when the shape has none */
    int32_t *action;    /* [rows] */
};

/* Bytes of the block. */
int64_t hd_transitions_bytes(const struct hd_transition_shape *shape);

/* The arrays in a block, 64-byte aligned when `block` is. */
struct hd_transitions hd_transitions_at(const struct hd_transition_shape *shape, void *block);

/* Copies rows [first, first + count) to rows [to_first, to_first + count) of another block, whose
 * shape differs in `rows` only. */
void hd_transitions_copy(const struct hd_transition_shape *to_shape, struct hd_transitions to,
                         int64_t to_first, const struct hd_transition_shape *shape,
                         struct hd_transitions from, int64_t first, int64_t count);

#endif
