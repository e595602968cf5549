/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adam.h"

#include <math.h>

struct hd_adam hd_adam_default(double learning_rate)
{
    return (struct hd_adam){learning_rate, 0.9, 0.999, 1e-8};
}

struct scalars {
    float step, root, root_inverse, b1, c1, b2, c2, epsilon;
};

/* In double, then rounded once, as PyTorch does. */
static struct scalars scalars_of(const struct hd_adam *adam, int64_t t)
{
    struct scalars s = {
        .step = (float)(adam->learning_rate / (1 - pow(adam->beta1, (double)t))),
        .root = (float)sqrt(1 - pow(adam->beta2, (double)t)),
        .b1 = (float)adam->beta1,
        .c1 = (float)(1 - adam->beta1),
        .b2 = (float)adam->beta2,
        .c2 = (float)(1 - adam->beta2),
        .epsilon = (float)adam->epsilon,
    };
    s.root_inverse = 1 / s.root;
    return s;
}

/* x / root, correctly rounded, by the rounded inverse and one step of refinement (Markstein 1990):
 * divisions are what Adam computes longest. */
static inline float by_root(const struct scalars *s, float x)
{
#ifdef __FMA__
    const float quotient = x * s->root_inverse;
    return __builtin_fmaf(__builtin_fmaf(-quotient, s->root, x), s->root_inverse, quotient);
#else
    return x / s->root;
#endif
}

static inline void update(const struct scalars *s, float grad, float *m, float *v, float *param)
{
    *m = s->b1 * *m + s->c1 * grad;
    *v = s->b2 * *v + s->c2 * grad * grad;
    *param -= s->step * (*m / (by_root(s, sqrtf(*v)) + s->epsilon));
}

void hd_adam_step(const struct hd_adam *adam, int64_t t, int64_t n, const float *restrict sum,
                  float count, float *restrict m, float *restrict v, float *restrict params)
{
    const struct scalars s = scalars_of(adam, t);
    int exponent;
    if (frexpf(count, &exponent) == 0.5f) { /* the inverse of a power of two is exact */
        const float inverse = 1 / count;
        for (int64_t i = 0; i < n; i++)
            update(&s, sum[i] * inverse, &m[i], &v[i], &params[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        update(&s, sum[i] / count, &m[i], &v[i], &params[i]);
}
