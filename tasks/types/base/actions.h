/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of a run, from policy.action_space and policy.model.action_shape. Thread safe. */
#ifndef HD_TASKS_TYPES_BASE_ACTIONS_H
#define HD_TASKS_TYPES_BASE_ACTIONS_H

#include "kernels/envs/actions.h"
#include "tasks/base/registry.h"

/* Returns the actions that the run file describes; a box has no bounds. The type `envs` checks that
 * they are those of the environment. */
struct hd_env_actions hd_actions_read(const struct hd_config *config);

/* Checks, from a type's `resolve`, that the policy of the run file can choose such actions. Returns
 * HD_OK, or HD_ERR_INPUT (in setup->diag, at `location`). */
int hd_actions_check_policy(const struct hd_setup *setup, struct hd_source_location location);

#endif
