/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of the episodes that end during a collect, which all verbs that collect write to a
 * value of type scalars. Thread safe for different values. */
#pragma once

#include "tasks/base/registry.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/output/env_counters.h"

/* Gives `spec` its fields, from a verb's `declare`; nothing when spec is NULL. Returns HD_OK,
 * HD_ERR_NOMEM, or HD_ERR_INPUT (in setup->diag) when it already has other fields. */
int hd_episodes_declare(const struct hd_setup *setup, struct hd_spec *spec);

/* Adds an episode that has ended, of `steps` steps. */
void hd_episodes_push(const struct hd_view *episodes, double episode_return, double steps);

/* Adds all episodes that ended in a group of trajectories of that shape, and its steps, episodes
 * and samples to *counters. */
void hd_episodes_push_all(const struct hd_view *episodes, const struct hd_trajectories *t,
                          const struct hd_trajectories_shape *shape,
                          struct hd_env_counters *counters);
