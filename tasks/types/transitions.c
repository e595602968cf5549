/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/transitions.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

struct hd_transition_shape hd_transition_shape_of(const struct hd_config *config, int64_t rows)
{
    int64_t dimensions, obs_size = 1;
    const int64_t *obs_shape = hd_config_ints(config, "policy.model.obs_shape", &dimensions);
    for (int64_t i = 0; i < dimensions; i++)
        obs_size *= obs_shape[i];
    int64_t nstep = hd_config_int(config, "policy.nstep");
    return (struct hd_transition_shape){
        .rows = rows, .obs_size = obs_size, .nstep = nstep, .has_value_gamma = nstep > 1};
}

int hd_transitions_resolve(struct hd_spec *spec, const struct hd_config *config, int64_t rows)
{
    struct hd_transition_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    *shape = hd_transition_shape_of(config, rows);
    spec->shape = shape;
    spec->bytes = hd_transitions_bytes(shape);
    return HD_OK;
}
