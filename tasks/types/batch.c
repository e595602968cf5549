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
    spec->bytes = hd_transitions_bytes(shape) + hd_padded(sizeof(int64_t)) +
                  hd_padded(shape->rows * (int64_t)sizeof(float));
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

struct hd_batch_use hd_batch_use(const struct hd_spec *spec, void *data)
{
    char *at = (char *)data + hd_transitions_bytes(spec->shape);
    return (struct hd_batch_use){(int64_t *)at, (float *)(at + hd_padded(sizeof(int64_t)))};
}

const struct hd_type hd_type_batch = {.name = "batch", .resolve = resolve};
