/* SPDX-License-Identifier: Apache-2.0 */
/* The double-DQN loss with n-step targets (van Hasselt et al. 2016; docs/di-engine.md 2.2). Thread
 * safe. */
#pragma once

#include <stdint.h>

struct hd_dqn_loss {
    int64_t batch, actions, nstep;
    float gamma;
    const float *q; /* [batch][actions] of obs, online net */
    const float
        *online_next; /* [batch][actions] of next_obs by the online net, which chooses the action */
    const float *target_next; /* [batch][actions] of next_obs by the target net, which values it */
    const int32_t *action;    /* [batch], in [0, actions) */
    const float *reward;      /* [nstep][ld_reward], the batch's columns */
    int64_t ld_reward;
    const float *done;        /* [batch]: 1 or 0 */
    const float *value_gamma; /* [batch]: factor of the bootstrap value; NULL: gamma^nstep */
    const float *importance;  /* [batch]: factor of each row's loss; NULL: 1 */
};

/* Sums over the batch in a fixed order, for logs; the caller divides. */
struct hd_dqn_sums {
    double loss;     /* importance (q[a] - y)^2 */
    double q;        /* sum over the whole matrix q */
    double target_q; /* sum over the whole matrix target_next */
};

/* Computes dq[batch][actions], the derivative of the SUM of importance (q[a] - y)^2 over the batch,
 * with y =
 * sum_j gamma^j r_j + factor (1 - done) target_next[argmax_a online_next], ties to the lowest
 * action; and td2[batch] = (q[a] - y)^2, unless that is NULL. */
void hd_dqn_loss_compute(const struct hd_dqn_loss *loss, float *dq, float *td2,
                         struct hd_dqn_sums *sums_p);

/* Computes the loss of the rows before *used on a GPU (NULL: of all `batch` rows); later rows get a
 * derivative of zeros, and td2, unless that is NULL, is left as it was. dq and td2 have the CPU's
 * bits; the sums are added in another fixed order. One launch. `loss`, in host memory with pointers
 * to device memory, is read before the call returns; *sums_p is device or shared memory. Returns
 * HD_OK or HD_ERR_DEVICE (logged). */
int hd_dqn_loss_compute_cuda(const struct hd_dqn_loss *loss, const int64_t *used, float *dq,
                             float *td2, struct hd_dqn_sums *sums_p, void *stream);
