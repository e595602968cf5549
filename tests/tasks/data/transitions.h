/* SPDX-License-Identifier: Apache-2.0 */
/* Transition blocks whose content tells where it is from. */
#pragma once

#include "tasks/types/collect/transition_block.h"
#include "tests/tasks/world.h"

/* Fills the value `transitions` with transitions first to first + n - 1 of env 0. Transition k has
 * action k and leads from frame k to the next one, each with `obs` floats; frame k begins with the
 * number k. */
static inline struct hd_transition_block fill_transitions(const struct world *w, int32_t first,
                                                          int32_t n, int64_t nstep, int64_t obs)
{
    const struct value *value = world_get(w, "transitions");
    const struct hd_transition_block_shape *shape = hd_transition_block_get_shape(&value->spec);
    const struct hd_transition_block block = hd_transition_block_get(shape, value->data);
    hd_transition_block_clear(shape, value->data);
    block.first[0] = first == 0 ? 0 : first + 1;
    for (int64_t k = block.first[0]; k <= first + n; k++)
        ((float *)block.frames)[(*block.n_frames)++ * obs] = (float)k;
    for (int32_t i = 0; i < n; i++) {
        struct hd_transition *transition = hd_transition_get(block.transitions, nstep, 1, i);
        transition->frame = transition->age = first + i;
        transition->ahead = 1;
        hd_transition_get_action(transition, nstep)->choice = first + i;
    }
    return block;
}
