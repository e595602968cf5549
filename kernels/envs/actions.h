/* SPDX-License-Identifier: Apache-2.0 */
/* Action spaces, wherever actions are stored. Thread safe. */
#pragma once

#include "kernels/envs/env.h"
#include "runtime/base/numbers.h"

/* A number of an action: a choice, or of a box a real number. */
union hd_action_number {
    int32_t choice;
    float real;
};

enum { HD_ACTIONS_TEXT = 256 };

/* Returns whether both take the same numbers; of boxes, bounds do not count. */
bool hd_actions_are_equal(const struct hd_env_actions *a, const struct hd_env_actions *b);

/* Returns how many outputs of a policy an action is drawn from: a logit for each choice of each
 * dimension; for each number of a box a mean and the logarithm of a deviation, means first. */
int64_t hd_actions_count_logits(const struct hd_env_actions *actions);

/* Writes "2 actions", "actions of [3, 2]" or "actions of 6 real numbers", and returns `text`. */
const char *hd_actions_describe(const struct hd_env_actions *actions, char text[HD_ACTIONS_TEXT]);

/* Checks action[n][dims] that were read from a file: choices exist, reals are finite. Returns
 * HD_OK, or HD_ERR_FORMAT with a sentence in `message` (not logged). */
int hd_actions_check(const struct hd_env_actions *actions, const union hd_action_number *action,
                     int64_t n, char message[HD_NUMBERS_MESSAGE]);
