/* SPDX-License-Identifier: Apache-2.0 */
/* Takes what the policy sees and does from the environment, where the run file leaves it open. */
#pragma once

#include "runtime/base/config/config.h"

/* Puts what the environment has in the place of `auto` in policy.model.obs_shape,
 * policy.model.action_shape and policy.action_space. It makes an env for that, if something is
 * auto; with `plugins` false only of a built-in environment: for others the shapes have to be
 * stated, and the algorithm has to have one kind of actions. Returns HD_OK, HD_ERR_NOMEM, or
 * HD_ERR_INPUT after adding an error to `diag`. Not thread safe: it changes the config. */
int hd_spaces_resolve(struct hd_config *config, bool plugins, struct hd_diag *diag);

/* Puts a value, as YAML, in the place of `auto` in one of these keys; a stated value stays. Returns
 * HD_OK, HD_ERR_INPUT (logged) or HD_ERR_NOMEM. */
int hd_spaces_fill(struct hd_config *config, const char *key, const char *text);
