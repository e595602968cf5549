/* SPDX-License-Identifier: Apache-2.0 */
/* Discounted returns of the envs of a collector, whose deviation is the unit of normalised rewards
 * (policy.collect.normalize_reward): R <- gamma R + r at each step, 0 after an episode, as in
 * Stable-Baselines3's VecNormalize. Without that key the functions do nothing. Thread safe for
 * different groups. */
#pragma once

#include "tasks/types/collect/envs.h"

/* Forgets the moments of a group's last collect. */
void hd_reward_stats_begin(const struct hd_envs_shape *shape, const struct hd_envs *envs);

/* Follows the returns of a group's envs over a step, and adds them to the collect's moments. */
void hd_reward_stats_add(const struct hd_envs_shape *shape, const struct hd_envs *envs,
                         const struct hd_env_outcome *outcome, double gamma);

/* Writes the moments of all groups of an instance of type envs to a value of type moments, in the
 * order of groups. Does nothing where `stats` has no data. */
void hd_reward_stats_gather(const struct hd_view *envs, const struct hd_view *stats);
