/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/batch.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn.h"
#include "tasks/types/obs.h"

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_transition_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->rows = hd_learn_shape_of(setup->config).rows;
    shape->obs_bytes = hd_obs_shape_of(setup->config).obs_bytes;
    shape->nstep = hd_config_int(setup->config, "policy.nstep");
    shape->has_value_gamma = shape->nstep > 1;
    spec->shape = shape;
    spec->bytes = hd_transitions_bytes(shape);
    return HD_OK;
}

const struct hd_transition_shape *hd_batch_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_transitions hd_batch_rows(const struct hd_spec *spec, void *data)
{
    return hd_transitions_at(spec->shape, data);
}

const struct hd_type hd_type_batch = {.name = "batch", .resolve = resolve};
