/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces and actions in the public form and in that of the environments. Thread safe. */
#pragma once

#include "infer/infer.h"
#include "kernels/envs/actions.h"
#include "tasks/types/base/obs.h"

/* Returns the bytes of a number of an action. */
int64_t hd_actions_get_number_bytes(const struct hd_env_actions *actions);

/* Returns the public form of an action space. */
struct heddle_actions hd_actions_publish(const struct hd_env_actions *actions);

/* Return the public form of observations, and of their parts. */
struct heddle_obs hd_obs_publish(const struct hd_obs_shape *obs);
struct heddle_obs_parts hd_obs_publish_parts(const struct hd_obs_shape *obs);

/* Writes the public form of n numbers of actions. */
void hd_actions_give(const struct hd_env_actions *actions, const union hd_action_number *from,
                     int64_t n, void *to);

/* Reads actions[rows][dims] in the public form. Returns HD_OK, or HD_ERR_INPUT (logged) for a
 * choice that does not exist or a number that is not finite. */
int hd_actions_take(const struct hd_env_actions *actions, const void *from, int64_t rows,
                    union hd_action_number *to);
