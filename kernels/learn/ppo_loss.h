/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of proximal policy optimisation with clipping (Schulman et al. 2017; spec 3.6). Thread
 * safe. */
#ifndef HD_KERNELS_LEARN_PPO_LOSS_H
#define HD_KERNELS_LEARN_PPO_LOSS_H

#include <stdbool.h>
#include <stdint.h>

struct hd_ppo_loss {
    int64_t batch, actions;
    float clip;      /* epsilon of the ratio and of the value */
    bool value_clip; /* the larger of the clipped and the unclipped error counts */
    float value_weight, entropy_weight;
    const float *out;       /* [batch][actions + 1]: logits, then the value */
    const float *logit_old; /* [batch][actions]: those that the actions were drawn from */
    const float *value_old; /* [batch] */
    const float *advantage; /* [batch] */
    const float *target;    /* [batch]: the return */
    const int32_t *action;  /* [batch] */
};

/* Sums over the batch, in order, of what is logged; the caller divides. Maxima are of the batch. */
struct hd_ppo_sums {
    double policy, value,
        entropy;      /* total = policy + value_weight value - entropy_weight entropy */
    double approx_kl; /* log p_old(a) - log p(a) */
    double kl;        /* of the old distribution from the new one, exact */
    double clipfrac;  /* ratio beyond 1 +- clip */
    double adv, adv_max, v, v_max;
};

/* dout[batch][actions + 1]: the derivative of the SUM over the batch of -min(ratio adv,
 * clamp(ratio) adv) + value_weight / 2 max((R - v)^2, (R - v_clip)^2) - entropy_weight H. Where two
 * branches tie, each has half of the gradient, as in PyTorch; a clamp lets it through at its bound.
 */
void hd_ppo_loss_compute(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p);

/* The same of the rows before *used on a GPU (NULL: of all `batch` rows); rows from there on get a
 * derivative of zeros. The sums are in another fixed order. One launch; `loss`, memory of the host
 * that points to the device's, is read before the call returns; *sums_p is the device's or shared.
 */
int hd_ppo_loss_compute_cuda(const struct hd_ppo_loss *loss, const int64_t *used, float *dout,
                             struct hd_ppo_sums *sums_p, void *stream);

/* (adv - mean) / (std + 1e-8) of n numbers in place, with the deviation of n - 1 (PyTorch's std).
 */
void hd_standardise(float *adv, int64_t n);

/* The same on a GPU, of *n numbers, which the device reads: both are the device's. Sums in double
 * in another fixed order. One launch of one block. */
int hd_standardise_cuda(float *adv, const int64_t *n, void *stream);

/* log_p[n] of a row of logits, and the entropy. */
float hd_log_softmax_compute(const float *logit, int64_t n, float *log_p);

#endif
