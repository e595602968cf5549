/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/batch.h"

#include "tasks/types/transitions.h"

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    return hd_transitions_resolve(spec, setup->config,
                                  hd_config_int(setup->config, "policy.learn.batch_size"));
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
