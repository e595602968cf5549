/* SPDX-License-Identifier: Apache-2.0 */
/* PPO's loss of one row, shared by CPUs and GPUs. Thread safe. */
#pragma once

#include "kernels/act/gaussian.h"
#include "kernels/learn/losses/ppo_loss.h"
#include "kernels/learn/losses/softmax.h"

/* Returns the loss with the numbers that are read when it is computed. */
HD_INLINE struct hd_ppo_loss hd_ppo_read_scheduled(const struct hd_ppo_loss *loss)
{
    struct hd_ppo_loss now = *loss;
    if (loss->clip_now && loss->clip_now->weight > 0)
        now.clip = (float)loss->clip_now->value;
    if (loss->entropy_weight_now && loss->entropy_weight_now->weight > 0)
        now.entropy_weight = (float)loss->entropy_weight_now->value;
    return now;
}

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

/* The probabilities of a row's action: the logarithms of the new and of the old one, and the
 * entropy of the new distribution. Those of all its numbers add up. */
struct hd_ppo_terms {
    float log_p, log_old, entropy;
};

/* Adds a choice; log_p[n] gets the logarithms of all new probabilities. */
HD_INLINE void hd_ppo_add_choice(const float *out, const float *old, int64_t n, int32_t choice,
                                 float *log_p, struct hd_ppo_terms *terms, struct hd_ppo_sums *sums)
{
    terms->entropy += hd_softmax_compute_log_probs(out, n, log_p);
    const struct hd_softmax softmax = hd_softmax_compute(old, n);
    terms->log_p += log_p[choice];
    terms->log_old += hd_softmax_get_log_prob(&softmax, old[choice]);
    for (int64_t j = 0; j < n; j++) {
        const float old_j = hd_softmax_get_log_prob(&softmax, old[j]);
        sums->kl += expf(old_j) * (old_j - log_p[j]);
    }
}

/* Replaces log_p[n] by the derivatives of by_log_p times the logarithm of the choice's probability,
 * less entropy_weight times the entropy. */
HD_INLINE void hd_ppo_differentiate_choice(float by_log_p, float entropy_weight, int64_t n,
                                           int32_t choice, float *log_p)
{
    float entropy = 0;
    for (int64_t j = 0; j < n; j++)
        entropy -= expf(log_p[j]) * log_p[j];
    for (int64_t j = 0; j < n; j++) {
        const float log_j = log_p[j], p = expf(log_j);
        log_p[j] = by_log_p * ((float)(j == choice) - p) + entropy_weight * p * (log_j + entropy);
    }
}

/* Adds a real number of a distribution whose logits are `dims` apart. */
HD_INLINE void hd_ppo_add_real(const float *out, const float *old, int32_t dims, float x,
                               struct hd_ppo_terms *terms, struct hd_ppo_sums *sums)
{
    terms->entropy += hd_gaussian_compute_entropy(out[dims]);
    terms->log_p += hd_gaussian_compute_log_prob(out[0], out[dims], x);
    terms->log_old += hd_gaussian_compute_log_prob(old[0], old[dims], x);
    sums->kl += hd_gaussian_compute_kl(old[0], old[dims], out[0], out[dims]);
}

/* Computes the terms of row b. Of choices, dlogit[logits] gets the logarithms of all new
 * probabilities. */
HD_INLINE struct hd_ppo_terms hd_ppo_compute_terms(const struct hd_ppo_loss *l, int64_t b,
                                                   float *dlogit, struct hd_ppo_sums *sums)
{
    const union hd_action_number *action = l->action + b * l->dims;
    const float *out = l->out + b * (l->logits + 1), *old = l->logit_old + b * l->logits;
    struct hd_ppo_terms terms;
    terms.log_p = terms.log_old = terms.entropy = 0;
    for (int32_t d = 0, at = 0; d < l->dims; at += l->choices[d++])
        if (l->gaussian)
            hd_ppo_add_real(out + d, old + d, l->dims, action[d].real, &terms, sums);
        else
            hd_ppo_add_choice(out + at, old + at, l->choices[d], action[d].choice, dlogit + at,
                              &terms, sums);
    return terms;
}

/* Writes dlogit[logits] of row b, where hd_ppo_compute_terms left what it did. */
HD_INLINE void hd_ppo_differentiate(const struct hd_ppo_loss *l, int64_t b, float by_log_p,
                                    float *dlogit)
{
    const union hd_action_number *action = l->action + b * l->dims;
    const float *out = l->out + b * (l->logits + 1);
    for (int32_t d = 0, at = 0; d < l->dims; at += l->choices[d++]) {
        if (!l->gaussian) {
            hd_ppo_differentiate_choice(by_log_p, l->entropy_weight, l->choices[d],
                                        action[d].choice, dlogit + at);
            continue;
        }
        const float log_std = out[l->dims + d];
        const struct hd_gaussian_slope slope =
            hd_gaussian_differentiate(out[d], log_std, action[d].real);
        dlogit[d] = by_log_p * slope.mean;
        dlogit[l->dims + d] =
            by_log_p * slope.log_std - l->entropy_weight * hd_gaussian_is_free(log_std);
    }
}

/* Writes dlogit[logits] of one row for the policy and entropy terms. */
HD_INLINE void hd_ppo_add_policy(const struct hd_ppo_loss *l, int64_t b, float *dlogit,
                                 struct hd_ppo_sums *sums)
{
    const struct hd_ppo_terms terms = hd_ppo_compute_terms(l, b, dlogit, sums);
    const float lo = 1 - l->clip, hi = 1 + l->clip, adv = l->advantage[b];
    const float ratio = expf(terms.log_p - terms.log_old), clamped = hd_ppo_clamp(ratio, lo, hi);
    const float unclipped = ratio * adv, bounded = clamped * adv;
    const bool inside = ratio >= lo && ratio <= hi;
    const bool less = unclipped<bounded, more = unclipped> bounded;
    const float by_unclipped = hd_ppo_split_gradient(less, more);
    const float dratio = adv * (by_unclipped + (1 - by_unclipped) * (float)inside);
    hd_ppo_differentiate(l, b, -dratio * ratio, dlogit);
    sums->policy -= less ? unclipped : bounded;
    sums->entropy += terms.entropy;
    sums->approx_kl += terms.log_old - terms.log_p;
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
    sums.adv = sums.v = sums.entropy_weight = 0;
    sums.adv_max = sums.v_max = -INFINITY;
    return sums;
}

/* Writes row b's derivative to dout[logits + 1] and adds its numbers to the sums. */
HD_INLINE void hd_ppo_add_row(const struct hd_ppo_loss *l, int64_t b, float *dout,
                              struct hd_ppo_sums *sums)
{
    const float v = l->out[b * (l->logits + 1) + l->logits], adv = l->advantage[b];
    hd_ppo_add_policy(l, b, dout, sums);
    dout[l->logits] = hd_ppo_add_value(l, b, v, sums);
    sums->adv += adv;
    sums->adv_max = adv > sums->adv_max ? adv : sums->adv_max;
    sums->v += v;
    sums->v_max = v > sums->v_max ? v : sums->v_max;
}
