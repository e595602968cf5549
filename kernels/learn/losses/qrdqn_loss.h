/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of QR-DQN, quantile regression of returns, with the double-DQN choice of the next action
 * and n-step targets (Dabney et al. 2017, equation 10, with kappa 1; DI-engine's
 * qrdqn_nstep_td_error). Thread safe. */
#pragma once

#include "kernels/learn/losses/dqn_loss.h"

/* As the loss of DQN, but q, online_next and target_next are [batch][actions][quantiles]. */
struct hd_qrdqn_loss {
    struct hd_dqn_loss rows;
    int64_t quantiles; /* N: number i is that of (i + 1/2) / N */
};

/* Computes dq[batch][actions][quantiles], the derivative of the SUM over the batch of importance
 * times
 * 1/N sum_ij |(i + 1/2) / N - [t_j < q_i]| huber(t_j - q_i), where q_i is quantile i of the action
 * and t_j = sum_k gamma^k r_k + factor (1 - done) target_next[a][j] with the action a whose mean by
 * online_next is the largest, the lowest of equal ones; and td[batch], these losses without
 * importance, unless that is NULL. The sums are those of DQN's loss, with all quantiles. */
void hd_qrdqn_loss_compute(const struct hd_qrdqn_loss *loss, float *dq, float *td,
                           struct hd_dqn_sums *sums_p);
