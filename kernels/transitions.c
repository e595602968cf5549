/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/transitions.h"

#include "runtime/base/alloc.h"

#include <string.h>

/* Bytes of an array of 4-byte elements, so padded that the next one is aligned. */
static int64_t padded(int64_t elements)
{
    return (elements * 4 + HD_ALIGNMENT - 1) / HD_ALIGNMENT * HD_ALIGNMENT;
}

int64_t hd_transitions_bytes(const struct hd_transition_shape *shape)
{
    int64_t row_arrays = shape->has_value_gamma ? 3 : 2;
    return 2 * padded(shape->rows * shape->obs_size) + padded(shape->nstep * shape->rows) +
           row_arrays * padded(shape->rows);
}

struct hd_transitions hd_transitions_at(const struct hd_transition_shape *shape, void *block)
{
    int64_t obs_bytes = padded(shape->rows * shape->obs_size), row_bytes = padded(shape->rows);
    char *at = block;
    struct hd_transitions rows = {0};
    rows.obs = (float *)at;
    rows.next_obs = (float *)(at += obs_bytes);
    rows.reward = (float *)(at += obs_bytes);
    rows.done = (float *)(at += padded(shape->nstep * shape->rows));
    rows.action = (int32_t *)(at += row_bytes);
    if (shape->has_value_gamma)
        rows.value_gamma = (float *)(at + row_bytes);
    return rows;
}

void hd_transitions_copy(const struct hd_transition_shape *to_shape, struct hd_transitions to,
                         int64_t to_first, const struct hd_transition_shape *shape,
                         struct hd_transitions from, int64_t first, int64_t count)
{
    size_t obs_bytes = (size_t)(count * shape->obs_size) * sizeof(float);
    size_t row_bytes = (size_t)count * 4;
    memcpy(to.obs + to_first * shape->obs_size, from.obs + first * shape->obs_size, obs_bytes);
    memcpy(to.next_obs + to_first * shape->obs_size, from.next_obs + first * shape->obs_size,
           obs_bytes);
    for (int64_t j = 0; j < shape->nstep; j++)
        memcpy(to.reward + j * to_shape->rows + to_first, from.reward + j * shape->rows + first,
               row_bytes);
    memcpy(to.done + to_first, from.done + first, row_bytes);
    memcpy(to.action + to_first, from.action + first, row_bytes);
    if (shape->has_value_gamma)
        memcpy(to.value_gamma + to_first, from.value_gamma + first, row_bytes);
}
