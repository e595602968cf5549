/* SPDX-License-Identifier: Apache-2.0 */
/* Actions of any kind from a row of a policy's outputs, which begins with the logits that
 * kernels/envs/actions.h describes. Thread safe. */
#pragma once

#include "kernels/envs/actions.h"
#include "runtime/base/rng.h"

/* Writes the best action[dims] by out[n]: of each choice the one with the largest output, the
 * lowest of equal ones; of a box the means. */
void hd_act_greedily(const struct hd_env_actions *actions, int64_t n, const float *out,
                     union hd_action_number *action);

/* Writes the choice, one of several, with the largest mean of its numbers, the lowest of equal
 * ones: out[n] is [choice][quantile]. */
void hd_act_by_mean(const struct hd_env_actions *actions, int64_t n, const float *out,
                    union hd_action_number *action);

/* Draws action[dims] from the policy's distribution, number d by item first + d of rng: choices by
 * hd_categorical_draw, numbers of a box as mean + deviation times hd_normal_draw. */
void hd_act_by_draw(const struct hd_env_actions *actions, const float *out,
                    const struct hd_rng *rng, uint32_t first, union hd_action_number *action);

/* Draws action[dims] uniformly, number d by item first + d of rng; of a box between its bounds, or
 * between -1 and 1 where it has none. */
void hd_act_randomly(const struct hd_env_actions *actions, const struct hd_rng *rng, uint32_t first,
                     union hd_action_number *action);

/* Do likewise for a policy whose numbers tanh maps to [-1, 1] (hd_squashed_draw): by the mean, by
 * item first + d of rng, and uniformly in [-1, 1]. */
void hd_act_squashed_greedily(const struct hd_env_actions *actions, int64_t n, const float *out,
                              union hd_action_number *action);
void hd_act_squashed_by_draw(const struct hd_env_actions *actions, const float *out,
                             const struct hd_rng *rng, uint32_t first,
                             union hd_action_number *action);
void hd_act_squashed_randomly(int dims, const struct hd_rng *rng, uint32_t first,
                              union hd_action_number *action);

/* Maps numbers in [-1, 1] to those between the bounds of a box; a number without bounds stays. Both
 * arrays may be one. */
void hd_act_scale(const struct hd_env_actions *actions, const union hd_action_number *unit,
                  union hd_action_number *action);
