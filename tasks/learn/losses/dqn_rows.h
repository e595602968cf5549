/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a batch of transitions, for losses that learn values of actions. Thread safe. */
#ifndef HD_TASKS_LEARN_LOSSES_DQN_ROWS_H
#define HD_TASKS_LEARN_LOSSES_DQN_ROWS_H

#include "kernels/learn/losses/dqn_loss.h"
#include "tasks/learn/losses/loss.h"

/* Returns a pass's rows, of which `rows` count, for a choice of `actions`. The net yields one or
 * more numbers for each action. */
struct hd_dqn_loss hd_dqn_rows_get(const struct hd_loss_pass *pass, int64_t actions, float gamma,
                                   int64_t rows);

#endif
