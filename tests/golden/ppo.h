/* SPDX-License-Identifier: Apache-2.0 */
/* What DI-engine's own classes gave for two PPO epochs of one minibatch each: parameters and
 * observations filled as docs/di-engine.md 9.1 says, the batch as docs/di-engine.md 9.3 says. */
#ifndef HD_TESTS_GOLDEN_PPO_H
#define HD_TESTS_GOLDEN_PPO_H

enum { GOLDEN_PPO_EPOCHS = 2, GOLDEN_PPO_TENSORS = 16 };

struct golden_ppo_update {
    double cur_lr, total_loss, policy_loss, value_loss, entropy_loss, adv_max, adv_mean, value_mean,
        value_max, approx_kl, clipfrac;
    double grad_norm; /* before the clip */
};

struct golden_ppo_tensor {
    const char *name;
    double l2, sum;
    int n_first;
    double first[4];
};

struct golden_ppo {
    int batch, actions, tensors;
    const double *value_before, *logit_before; /* [batch], [batch][actions] */
    const double *value_after, *logit_after;
    double value_next; /* of observation `batch`, before */
    struct golden_ppo_update update[GOLDEN_PPO_EPOCHS];
    struct golden_ppo_tensor params_after[GOLDEN_PPO_TENSORS]; /* [tensors] */
    double running_mean, running_std, running_count;           /* of returns, after */
};

#endif
