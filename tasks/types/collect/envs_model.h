/* SPDX-License-Identifier: Apache-2.0 */
/* Compares an env with the model that plays it, when a run's values are resolved. */
#pragma once

#include "kernels/envs/find/find.h"
#include "tasks/base/registry.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/outputs.h"

/* An env, what one of it shows at a step, what the model is to see of it, and what the model's
 * actions come from. */
struct hd_envs_model {
    const struct hd_env *env;
    const struct hd_env_spec *frame;
    const struct hd_obs_shape *obs;
    const struct hd_outputs *outputs;
};

/* Checks that the observations, actions and stated bounds of the model are those of the env.
 * Returns HD_OK or the status of the errors that it added to setup->diag. Thread safe for different
 * setups. */
int hd_envs_check_model(const struct hd_envs_model *model, const struct hd_spec *spec,
                        const struct hd_setup *setup);
