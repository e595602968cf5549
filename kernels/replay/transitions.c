/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay/transitions.h"

#include "runtime/base/alloc.h"

int64_t hd_transitions_get_bytes(const struct hd_transition_shape *shape)
{
    const int64_t row_arrays = shape->has_value_gamma ? 2 : 1;
    return hd_align_up(2 * shape->rows * shape->obs_bytes) +
           hd_align_up(shape->nstep * shape->rows * 4) +
           hd_align_up(shape->dims * shape->rows * 4) + row_arrays * hd_align_up(shape->rows * 4);
}

struct hd_transitions hd_transitions_lay_out(const struct hd_transition_shape *shape, void *block)
{
    int64_t obs_bytes = shape->rows * shape->obs_bytes, row_bytes = hd_align_up(shape->rows * 4);
    char *at = block;
    struct hd_transitions rows = {0};
    rows.obs = at;
    rows.next_obs = at + obs_bytes;
    rows.reward = (float *)(at += hd_align_up(2 * obs_bytes));
    rows.done = (float *)(at += hd_align_up(shape->nstep * shape->rows * 4));
    rows.action = (union hd_action_number *)(at += row_bytes);
    if (shape->has_value_gamma)
        rows.value_gamma = (float *)(at + hd_align_up(shape->dims * shape->rows * 4));
    return rows;
}
