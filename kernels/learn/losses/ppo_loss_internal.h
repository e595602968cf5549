/* SPDX-License-Identifier: Apache-2.0 */
/* PPO's loss of one row, shared by CPUs and GPUs. Thread safe. */
#ifndef HD_KERNELS_LEARN_LOSSES_PPO_LOSS_INTERNAL_H
#define HD_KERNELS_LEARN_LOSSES_PPO_LOSS_INTERNAL_H

#include "kernels/common/softmax.h"
#include "kernels/learn/losses/ppo_loss.h"

/* Returns x, or the bound beyond which it lies. */
HD_INLINE float hd_ppo_clamp(float x, float lo, float hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Returns the share of the gradient that goes through `first` when the extreme of two branches is
 * taken: all, none, or half if they tie; the rest goes through the other branch. */
HD_INLINE float hd_ppo_split_gradient(bool first, bool second)
{
    return first ? 1 : second ? 0 : 0.5f;
}

/* Writes dlogit[actions] of one row for the policy and entropy terms; before, it holds log p. */
HD_INLINE void hd_ppo_add_policy(const struct hd_ppo_loss *l, int64_t b, float *dlogit,
                                 struct hd_ppo_sums *sums)
{
    const int64_t n = l->actions, a = l->action[b];
    const float *old = l->logit_old + b * n;
    const float entropy = hd_softmax_compute_log_probs(l->out + b * (n + 1), n, dlogit);
    const struct hd_softmax softmax_old = hd_softmax_compute(old, n);
    const float log_p = dlogit[a], log_old = hd_softmax_get_log_prob(&softmax_old, old[a]);
    const float lo = 1 - l->clip, hi = 1 + l->clip, adv = l->advantage[b];
    const float ratio = expf(log_p - log_old), clamped = hd_ppo_clamp(ratio, lo, hi);
    const float unclipped = ratio * adv, bounded = clamped * adv;
    const bool inside = ratio >= lo && ratio <= hi;
    const bool less = unclipped<bounded, more = unclipped> bounded;
    const float by_unclipped = hd_ppo_split_gradient(less, more);
    const float dratio = adv * (by_unclipped + (1 - by_unclipped) * (float)inside);
    for (int64_t j = 0; j < n; j++) {
        const float log_j = dlogit[j], p = expf(log_j),
                    old_j = hd_softmax_get_log_prob(&softmax_old, old[j]);
        dlogit[j] =
            -dratio * ratio * ((float)(j == a) - p) + l->entropy_weight * p * (log_j + entropy);
        sums->kl += expf(old_j) * (old_j - log_j);
    }
    sums->policy -= less ? unclipped : bounded;
    sums->entropy += entropy;
    sums->approx_kl += log_old - log_p;
    sums->clipfrac += !inside;
}

/* Returns the derivative of one row by its value. */
HD_INLINE float hd_ppo_add_value(const struct hd_ppo_loss *l, int64_t b, float v,
                                 struct hd_ppo_sums *sums)
{
    const float old = l->value_old[b], error = v - l->target[b];
    const float moved = hd_ppo_clamp(v - old, -l->clip, l->clip);
    const float bounded = old + moved - l->target[b];
    const bool inside = v - old >= -l->clip && v - old <= l->clip;
    if (!l->value_clip) {
        sums->value += 0.5f * error * error;
        return l->value_weight * error;
    }
    const float unclipped2 = error * error, bounded2 = bounded * bounded;
    const float by_unclipped = hd_ppo_split_gradient(unclipped2 > bounded2, unclipped2 < bounded2);
    sums->value += 0.5f * (unclipped2 > bounded2 ? unclipped2 : bounded2);
    return l->value_weight * (by_unclipped * error + (1 - by_unclipped) * (float)inside * bounded);
}

/* Returns the sums over no rows. */
HD_INLINE struct hd_ppo_sums hd_ppo_init_sums(void)
{
    struct hd_ppo_sums sums;
    sums.policy = sums.value = sums.entropy = sums.approx_kl = sums.kl = sums.clipfrac = 0;
    sums.adv = sums.v = 0;
    sums.adv_max = sums.v_max = -INFINITY;
    return sums;
}

/* Writes row b's derivative to dout[actions + 1] and adds its numbers to the sums. */
HD_INLINE void hd_ppo_add_row(const struct hd_ppo_loss *l, int64_t b, float *dout,
                              struct hd_ppo_sums *sums)
{
    const float v = l->out[b * (l->actions + 1) + l->actions], adv = l->advantage[b];
    hd_ppo_add_policy(l, b, dout, sums);
    dout[l->actions] = hd_ppo_add_value(l, b, v, sums);
    sums->adv += adv;
    sums->adv_max = adv > sums->adv_max ? adv : sums->adv_max;
    sums->v += v;
    sums->v_max = v > sums->v_max ? v : sums->v_max;
}

#endif
