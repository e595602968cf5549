/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a batch of transitions, for losses that learn values of actions. Thread safe. */
#pragma once

#include "kernels/learn/losses/dqn_loss.h"
#include "tasks/learn/losses/loss.h"

/* Returns a pass's rows, of which `rows` count, for a choice of `actions`. The net yields one or
 * more numbers for each action. */
struct hd_dqn_loss hd_dqn_rows_get(const struct hd_loss_pass *pass, int64_t actions, float gamma,
                                   int64_t rows);

/* A pass over such a batch leaves the number of its rows that count and the sums over them. */
struct hd_dqn_header {
    int64_t used;
    struct hd_dqn_sums sums;
};

enum { HD_DQN_FIELDS = 3 };

extern const struct hd_scalar_field hd_dqn_fields[HD_DQN_FIELDS];

/* Adds items[n], each a struct hd_dqn_header, in order, and sets the fields' values and weights. A
 * row of the net has `outputs` numbers. Returns the sum of the rows' losses. */
double hd_dqn_headers_sum(int64_t outputs, void *const *items, int64_t n, double *values,
                          double *weights);
