/* SPDX-License-Identifier: Apache-2.0 */
/* Normal distributions of one number of an action, for CPUs and GPUs: with independent numbers, log
 * probabilities, entropies and divergences of an action are the sums of those of its numbers. A
 * distribution is a mean and the logarithm of a deviation, which counts as clamped to [-20, 2] and
 * whose derivative is zero beyond. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <math.h>

/* The derivatives of a number by mean and logarithm of the deviation. */
struct hd_gaussian_slope {
    float mean, log_std;
};

#define HD_HALF_LOG_TWO_PI 0.918938533204672742f

/* Returns the logarithm of the deviation that counts. */
HD_INLINE float hd_gaussian_clamp(float log_std)
{
    return log_std < -20 ? -20 : log_std > 2 ? 2 : log_std;
}

/* Returns the derivative of hd_gaussian_clamp: 1 within the bounds, and on them, else 0. */
HD_INLINE float hd_gaussian_is_free(float log_std)
{
    return log_std >= -20 && log_std <= 2 ? 1.0f : 0.0f;
}

/* Returns the number that a normal number `noise` selects (kernels/common/normal.h). */
HD_INLINE float hd_gaussian_draw(float mean, float log_std, double noise)
{
    return (float)((double)mean + exp((double)hd_gaussian_clamp(log_std)) * noise);
}

/* Returns the logarithm of the density at x. */
HD_INLINE float hd_gaussian_compute_log_prob(float mean, float log_std, float x)
{
    const float clamped = hd_gaussian_clamp(log_std), z = (x - mean) * expf(-clamped);
    return -0.5f * z * z - clamped - HD_HALF_LOG_TWO_PI;
}

/* Returns the derivative of that log probability for a fixed x. */
HD_INLINE struct hd_gaussian_slope hd_gaussian_differentiate(float mean, float log_std, float x)
{
    const float scale = expf(-hd_gaussian_clamp(log_std)), z = (x - mean) * scale;
    struct hd_gaussian_slope slope;
    slope.mean = z * scale;
    slope.log_std = (z * z - 1) * hd_gaussian_is_free(log_std);
    return slope;
}

/* Returns the entropy, whose derivative by log_std is hd_gaussian_is_free. */
HD_INLINE float hd_gaussian_compute_entropy(float log_std)
{
    return 0.5f + HD_HALF_LOG_TWO_PI + hd_gaussian_clamp(log_std);
}

/* Returns the Kullback-Leibler divergence of another distribution q from p: the expectation under p
 * of log p - log q. */
HD_INLINE float hd_gaussian_compute_kl(float mean_p, float log_std_p, float mean_q, float log_std_q)
{
    const float p = hd_gaussian_clamp(log_std_p), q = hd_gaussian_clamp(log_std_q);
    const float shift = (mean_p - mean_q) * expf(-q), ratio = expf(p - q);
    return q - p + 0.5f * (ratio * ratio + shift * shift - 1);
}

/* -- Squashed by tanh (Haarnoja et al. 2018, "Soft Actor-Critic", appendix C) --------------------
 */

/* A number drawn from a squashed normal distribution. The slopes are those of the action and of its
 * log probability for a fixed noise. */
struct hd_squashed {
    float action, log_prob; /* action in [-1, 1] */
    struct hd_gaussian_slope by_action, by_log_prob;
};

/* Returns log(1 + exp(x)) without overflow. */
HD_INLINE float hd_softplus_compute(float x)
{
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}

/* Draws tanh(x), x = mean + deviation noise. Its log probability is that of x less log(1 -
 * tanh(x)^2), which is computed as 2 (log 2 - x - softplus(-2 x)), and is finite also where tanh(x)
 * rounds to 1. */
HD_INLINE struct hd_squashed hd_squashed_draw(float mean, float log_std, double noise)
{
    const float clamped = hd_gaussian_clamp(log_std), z = (float)noise, moved = expf(clamped) * z;
    const float x = mean + moved, y = tanhf(x), free = hd_gaussian_is_free(log_std);
    const float left = 1 / coshf(x); /* its square is 1 - tanh(x)^2 */
    struct hd_squashed drawn;
    drawn.action = y;
    drawn.log_prob = -0.5f * z * z - clamped - HD_HALF_LOG_TWO_PI -
                     2 * (0.693147180559945309f - x - hd_softplus_compute(-2 * x));
    drawn.by_action.mean = left * left;
    drawn.by_action.log_std = left * left * moved * free;
    drawn.by_log_prob.mean = 2 * y;
    drawn.by_log_prob.log_std = (2 * y * moved - 1) * free;
    return drawn;
}
