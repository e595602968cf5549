/* SPDX-License-Identifier: Apache-2.0 */
/* Type `rollout`: the policy.collect.n_sample transitions of one collect of one shard, a block of
 * transitions. */
#include "tasks/builtin.h"
#include "tasks/types/transitions.h"

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    return hd_transitions_resolve(spec, setup->config,
                                  hd_config_int(setup->config, "policy.collect.n_sample"));
}

const struct hd_type hd_type_rollout = {.name = "rollout", .resolve = resolve};
