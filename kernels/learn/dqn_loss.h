/* SPDX-License-Identifier: Apache-2.0 */
/* The double-DQN loss with n-step targets (van Hasselt et al. 2016; spec 2.2). Thread safe. */
#ifndef HD_KERNELS_LEARN_DQN_LOSS_H
#define HD_KERNELS_LEARN_DQN_LOSS_H

#include <stdint.h>

struct hd_dqn_loss {
    int64_t batch, actions, nstep;
    float gamma;
    const float *q;           /* [batch][actions] of obs, online net */
    const float *online_next; /* [batch][actions] of next_obs, online net: chooses the action */
    const float *target_next; /* [batch][actions] of next_obs, target net: values it */
    const int32_t *action;    /* [batch], in [0, actions) */
    const float *reward;      /* [nstep][ld_reward], the batch's columns */
    int64_t ld_reward;
    const float *done;        /* [batch] 1 or 0 */
    const float *value_gamma; /* [batch] factor of the bootstrap; NULL: gamma^nstep */
};

/* Sums over the batch, in fixed order, of what is logged; the caller divides. */
struct hd_dqn_sums {
    double loss;     /* (q[a] - y)^2 */
    double q;        /* over the whole matrix q */
    double target_q; /* over the whole matrix target_next */
};

/* dq[batch][actions]: the derivative of the SUM of (q[a] - y)^2 over the batch, y = sum_j gamma^j
 * r_j + factor (1 - done) target_next[argmax_a online_next], ties to the lowest action. td2[batch],
 * if not NULL: (q[a] - y)^2. */
void hd_dqn_loss_compute(const struct hd_dqn_loss *loss, float *dq, float *td2,
                         struct hd_dqn_sums *sums_p);

/* The same of the rows before *used on a GPU (NULL: of all `batch` rows); rows from there on get a
 * derivative of zeros. dq has the CPU's bits; the sums are in another fixed order. One launch;
 * `loss`, memory of the host that points to the device's, is read before the call returns; *sums_p
 * is the device's or shared. */
int hd_dqn_loss_compute_cuda(const struct hd_dqn_loss *loss, const int64_t *used, float *dq,
                             struct hd_dqn_sums *sums_p, void *stream);

#endif
