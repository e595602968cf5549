/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of advantage actor-critic (Mnih et al. 2016, without asynchrony; DI-engine's a2c_error).
 * Thread safe. */
#pragma once

#include <stdint.h>

struct hd_a2c_loss {
    int64_t batch, actions;
    float value_weight, entropy_weight;
    const float *out;       /* [batch][actions + 1]: logits, then the value */
    const float *advantage; /* [batch] */
    const float *target;    /* [batch]: the return */
    const int32_t *action;  /* [batch] */
};

/* Sums over the batch in order, for logs: total = policy + value_weight value - entropy_weight
 * entropy. */
struct hd_a2c_sums {
    double policy, value, entropy, adv, v;
};

/* Computes dout[batch][actions + 1], the derivative of the SUM over the batch of -log p(a) adv +
 * value_weight (v - R)^2 - entropy_weight H, and the sums. */
void hd_a2c_loss_compute(const struct hd_a2c_loss *loss, float *dout, struct hd_a2c_sums *sums_p);
