/* SPDX-License-Identifier: Apache-2.0 */
/* The clipped loss of proximal policy optimisation (Schulman et al. 2017; docs/di-engine.md 3.6).
 * Thread safe on different memory. */
#pragma once

#include "kernels/common/scalar.h"
#include "kernels/envs/actions.h"

#include <stdbool.h>
#include <stdint.h>

enum { HD_PPO_DIMS = HD_ENV_ACTION_DIMS };

struct hd_ppo_loss {
    int64_t batch, logits;        /* logits of a row (kernels/envs/actions.h) */
    int32_t dims;                 /* D: numbers of an action */
    bool gaussian;                /* numbers are real (kernels/act/gaussian.h); else choices */
    int32_t choices[HD_PPO_DIMS]; /* of each number, unless gaussian */
    float clip;                   /* epsilon of the ratio and of the value */
    bool value_clip; /* true: the larger of the clipped and the unclipped error counts */
    float value_weight, entropy_weight;
    const struct hd_scalar *clip_now, *entropy_weight_now; /* read when the loss is computed, and
                                                              take the place of clip and
                                                              entropy_weight; NULL: they stand */
    const float *out;                     /* [batch][logits + 1]: logits, then the value */
    const float *logit_old;               /* [batch][logits]: from which the actions were drawn */
    const float *value_old;               /* [batch] */
    const float *advantage;               /* [batch] */
    const float *target;                  /* [batch]: the return */
    const union hd_action_number *action; /* [batch][D] */
};

/* Sums over the batch in order, for logs; the caller divides. Maxima are over the batch. */
struct hd_ppo_sums {
    double policy, value,
        entropy;           /* total = policy + value_weight value - entropy_weight entropy */
    double entropy_weight; /* as it was */
    double approx_kl;      /* log p_old(a) - log p(a) */
    double kl;             /* exact divergence of the old distribution from the new one */
    double clipfrac;       /* number of rows whose ratio lies beyond 1 +- clip */
    double adv, adv_max, v, v_max;
};

/* Computes dout[batch][logits + 1], the derivative of the SUM over the batch of -min(ratio adv,
 * clamp(ratio) adv) + value_weight / 2 max((R - v)^2, (R - v_clip)^2) - entropy_weight H, and the
 * sums. If two branches tie, each gets half of the gradient, as in PyTorch; a clamp passes the
 * gradient at its bound. */
void hd_ppo_loss_compute(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p);

/* Computes the loss of the rows before *used on a GPU (NULL: of all `batch` rows); later rows get a
 * derivative of zeros. The sums are added in another fixed order. One launch. `loss`, in host
 * memory with pointers to device memory, is read before the call returns; *sums_p is device or
 * shared memory. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_ppo_loss_compute_cuda(const struct hd_ppo_loss *loss, const int64_t *used, float *dout,
                             struct hd_ppo_sums *sums_p, void *stream);

/* Replaces n numbers by (adv - mean) / (std + 1e-8), with the deviation over n - 1 (PyTorch's
 * std). */
void hd_standardise(float *adv, int64_t n);

/* Standardises *n numbers on a GPU; both pointers are to device memory. Sums are added in double in
 * another fixed order. One launch of one block. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_standardise_cuda(float *adv, const int64_t *n, void *stream);
