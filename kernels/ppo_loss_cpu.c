/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ppo_loss.h"

#include <math.h>

/* log p of a logit is logit - most - log_sum. */
struct softmax {
    float most, log_sum;
};

static struct softmax softmax_of(const float *logit, int64_t n)
{
    float most = logit[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = logit[i] > most ? logit[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += expf(logit[i] - most);
    return (struct softmax){most, logf(sum)};
}

static float log_p_of(const struct softmax *softmax, float logit)
{
    return logit - softmax->most - softmax->log_sum;
}

float hd_log_softmax(const float *logit, int64_t n, float *log_p)
{
    const struct softmax softmax = softmax_of(logit, n);
    float entropy = 0;
    for (int64_t i = 0; i < n; i++) {
        log_p[i] = log_p_of(&softmax, logit[i]);
        entropy -= expf(log_p[i]) * log_p[i];
    }
    return entropy;
}

void hd_standardise(float *adv, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += adv[i];
    const double mean = n > 0 ? sum / (double)n : 0;
    for (int64_t i = 0; i < n; i++)
        squares += (adv[i] - mean) * (adv[i] - mean);
    const double std = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    for (int64_t i = 0; i < n; i++)
        adv[i] = (float)((adv[i] - mean) / (std + 1e-8));
}

static float clamp(float x, float lo, float hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* How much of the gradient goes by `first` when the extreme of two branches is taken: all, none, or
 * half where they tie; the rest goes by the other. */
static float share(bool first, bool second)
{
    return first ? 1 : second ? 0 : 0.5f;
}

/* dlogit[actions] of one row, for its policy and entropy terms; until then it holds log p. */
static void differentiate_policy(const struct hd_ppo_loss *l, int64_t b, float *dlogit,
                                 struct hd_ppo_sums *sums)
{
    const int64_t n = l->actions, a = l->action[b];
    const float *old = l->logit_old + b * n;
    const float entropy = hd_log_softmax(l->out + b * (n + 1), n, dlogit);
    const struct softmax softmax_old = softmax_of(old, n);
    const float log_p = dlogit[a], log_old = log_p_of(&softmax_old, old[a]);
    const float lo = 1 - l->clip, hi = 1 + l->clip, adv = l->advantage[b];
    const float ratio = expf(log_p - log_old), clamped = clamp(ratio, lo, hi);
    const float plain = ratio * adv, bounded = clamped * adv;
    const bool inside = ratio >= lo && ratio <= hi;
    const bool less = plain<bounded, more = plain> bounded;
    const float by_plain = share(less, more);
    const float dratio = adv * (by_plain + (1 - by_plain) * (float)inside);
    for (int64_t j = 0; j < n; j++) {
        const float log_j = dlogit[j], p = expf(log_j), old_j = log_p_of(&softmax_old, old[j]);
        dlogit[j] =
            -dratio * ratio * ((float)(j == a) - p) + l->entropy_weight * p * (log_j + entropy);
        sums->kl += expf(old_j) * (old_j - log_j);
    }
    sums->policy -= less ? plain : bounded;
    sums->entropy += entropy;
    sums->approx_kl += log_old - log_p;
    sums->clipfrac += !inside;
}

/* The derivative of one row by its value. */
static float differentiate_value(const struct hd_ppo_loss *l, int64_t b, float v,
                                 struct hd_ppo_sums *sums)
{
    const float old = l->value_old[b], error = v - l->target[b];
    const float moved = clamp(v - old, -l->clip, l->clip);
    const float bounded = old + moved - l->target[b];
    const bool inside = v - old >= -l->clip && v - old <= l->clip;
    if (!l->value_clip) {
        sums->value += 0.5f * error * error;
        return l->value_weight * error;
    }
    const float plain2 = error * error, bounded2 = bounded * bounded;
    const float by_plain = share(plain2 > bounded2, plain2 < bounded2);
    sums->value += 0.5f * (plain2 > bounded2 ? plain2 : bounded2);
    return l->value_weight * (by_plain * error + (1 - by_plain) * (float)inside * bounded);
}

void hd_ppo_loss(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p)
{
    struct hd_ppo_sums sums = {.adv_max = -INFINITY, .v_max = -INFINITY};
    const int64_t n = loss->actions;
    for (int64_t b = 0; b < loss->batch; b++) {
        const float v = loss->out[b * (n + 1) + n], adv = loss->advantage[b];
        differentiate_policy(loss, b, dout + b * (n + 1), &sums);
        dout[b * (n + 1) + n] = differentiate_value(loss, b, v, &sums);
        sums.adv += adv;
        sums.adv_max = adv > sums.adv_max ? adv : sums.adv_max;
        sums.v += v;
        sums.v_max = v > sums.v_max ? v : sums.v_max;
    }
    *sums_p = sums;
}
