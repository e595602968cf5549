/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of the episodes that a collect ends: what the verbs that collect write alike. */
#ifndef HD_TASKS_COLLECT_EPISODES_H
#define HD_TASKS_COLLECT_EPISODES_H

#include "tasks/registry.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/output/env_counters.h"

/* For a verb's `declare`: the fields of its value of scalars (NULL: none). */
int hd_episodes_declare(const struct hd_setup *setup, struct hd_spec *spec);

/* An episode has ended. */
void hd_episodes_push(const struct hd_view *episodes, double episode_return, double steps);

/* The same for all episodes that a group of trajectories notes, whose steps, episodes and samples,
 * of `envs` envs, are added to *counts. */
void hd_episodes_push_all(const struct hd_view *episodes, const struct hd_trajectories *t,
                          int64_t envs, struct hd_env_counters *counters);

#endif
