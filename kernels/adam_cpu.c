/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adam.h"

#include <math.h>
#include <stdbool.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

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

struct arrays {
    const float *sum;
    float *m, *v, *params;
};

static inline void update_one(const struct scalars *s, float grad, const struct arrays *a,
                              int64_t i)
{
    const float m = s->b1 * a->m[i] + s->c1 * grad;
    const float v = s->b2 * a->v[i] + s->c2 * grad * grad;
    a->m[i] = m;
    a->v[i] = v;
    a->params[i] -= s->step * (m / (by_root(s, sqrtf(v)) + s->epsilon));
}

#ifdef __AVX512F__
enum { LANES = 16 };

/* The same on vectors. All loads come before all stores: arrays often lie whole pages apart, and a
 * load waits for an earlier store to the same place in another page. */
static inline void update_some(const struct scalars *s, __m512 grad, const struct arrays *a,
                               int64_t i)
{
    const __m512 old_m = _mm512_loadu_ps(a->m + i), old_v = _mm512_loadu_ps(a->v + i);
    const __m512 param = _mm512_loadu_ps(a->params + i);
    const __m512 inverse = _mm512_set1_ps(s->root_inverse);
    const __m512 m = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(s->b1), old_m),
                                   _mm512_mul_ps(_mm512_set1_ps(s->c1), grad));
    const __m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(s->b2), old_v),
                                   _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(s->c2), grad), grad));
    const __m512 x = _mm512_sqrt_ps(v), quotient = _mm512_mul_ps(x, inverse);
    const __m512 rest = _mm512_fnmadd_ps(quotient, _mm512_set1_ps(s->root), x);
    const __m512 below =
        _mm512_add_ps(_mm512_fmadd_ps(rest, inverse, quotient), _mm512_set1_ps(s->epsilon));
    const __m512 change = _mm512_mul_ps(_mm512_set1_ps(s->step), _mm512_div_ps(m, below));
    _mm512_storeu_ps(a->params + i, _mm512_sub_ps(param, change));
    _mm512_storeu_ps(a->m + i, m);
    _mm512_storeu_ps(a->v + i, v);
}
#endif

void hd_adam_step(const struct hd_adam *adam, int64_t t, int64_t n, const float *sum, float count,
                  float scale, float *m, float *v, float *params)
{
    const struct scalars s = scalars_of(adam, t);
    const struct arrays a = {sum, m, v, params};
    int exponent;
    /* The inverse of a power of two is exact. */
    const bool invert = frexpf(count, &exponent) == 0.5f;
    const float factor = invert ? 1 / count : count;
    int64_t i = 0;
#ifdef __AVX512F__
    const __m512 factors = _mm512_set1_ps(factor), scales = _mm512_set1_ps(scale);
    for (; invert && i + LANES <= n; i += LANES)
        update_some(&s, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(sum + i), factors), scales), &a,
                    i);
    for (; i + LANES <= n; i += LANES)
        update_some(&s, _mm512_mul_ps(_mm512_div_ps(_mm512_loadu_ps(sum + i), factors), scales), &a,
                    i);
#endif
    for (; i < n; i++)
        update_one(&s, (invert ? sum[i] * factor : sum[i] / factor) * scale, &a, i);
}
