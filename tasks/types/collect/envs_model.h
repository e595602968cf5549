/* SPDX-License-Identifier: Apache-2.0 */
/* Compares an env with the model that plays it, when a run's values are resolved. */
#ifndef HD_TASKS_TYPES_COLLECT_ENVS_MODEL_H
#define HD_TASKS_TYPES_COLLECT_ENVS_MODEL_H

#include "tasks/types/collect/envs.h"

/* Checks that the observations, actions and stated bounds of the model are those of the env, which
 * shape->frame describes. Returns HD_OK or the status of the errors that it added to
 * setup->diag. */
int hd_envs_check_model(const struct hd_envs_shape *shape, const struct hd_spec *spec,
                        const struct hd_setup *setup);

#endif
