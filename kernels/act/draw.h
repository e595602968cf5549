/* SPDX-License-Identifier: Apache-2.0 */
/* Actions of any kind from a row of a policy's outputs, which begins with the logits that
 * kernels/envs/actions.h describes. Thread safe. */
#ifndef HD_KERNELS_ACT_DRAW_H
#define HD_KERNELS_ACT_DRAW_H

#include "kernels/envs/actions.h"
#include "runtime/base/rng.h"

/* Writes the likeliest action[dims]: of each choice the one with the largest output, the lowest of
 * equal ones; of a box the means. */
void hd_act_greedily(const struct hd_env_actions *actions, const float *out,
                     union hd_action_number *action);

/* Draws action[dims] from the policy's distribution, number d by item `item` dims + d of rng:
 * choices by hd_categorical_draw, numbers of a box as mean + deviation times
 * hd_normal_draw. */
void hd_act_by_draw(const struct hd_env_actions *actions, const float *out,
                    const struct hd_rng *rng, uint32_t item, union hd_action_number *action);

/* Draws action[dims] uniformly, number d by item first + d of rng; of a box between its bounds, or
 * between -1 and 1 where it has none. */
void hd_act_randomly(const struct hd_env_actions *actions, const struct hd_rng *rng, uint32_t first,
                     union hd_action_number *action);

#endif
