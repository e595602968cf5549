/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of a run, from policy.action_space and policy.model.action_shape. Thread safe. */
#pragma once

#include "kernels/envs/actions.h"
#include "tasks/base/registry.h"

enum { HD_ACTIONS_BOUNDS = 4096 };

/* Returns the actions that the run file describes; a box has no bounds. The type `envs` checks that
 * they are those of the environment. */
struct hd_env_actions hd_actions_read(const struct hd_config *config);

/* Reads policy.action_bounds, if it is stated, as the bounds of a box; *stated_p: it is. Returns
 * HD_OK, or HD_ERR_INPUT (in setup->diag). */
int hd_actions_read_bounds(const struct hd_setup *setup, struct hd_env_actions *box,
                           bool *stated_p);

/* Writes bounds as that key has them, "{low: [-2], high: [2]}", and returns `text`. */
const char *hd_actions_write_bounds(const struct hd_env_actions *box, char text[HD_ACTIONS_BOUNDS]);

/* Checks, from a type's `resolve`, that the policy of the run file can choose such actions. Returns
 * HD_OK, or HD_ERR_INPUT (in setup->diag, at `location`). */
int hd_actions_check_policy(const struct hd_setup *setup, struct hd_source_location location);
