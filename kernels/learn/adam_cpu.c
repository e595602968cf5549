/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/adam_internal.h"

#include <stdbool.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

struct hd_adam hd_adam_make(double learning_rate)
{
    return (struct hd_adam){learning_rate, 0.9, 0.999, 1e-8};
}

#ifdef __AVX512F__
enum { LANES = 16 };

struct arrays {
    float *m, *v, *params;
};

/* hd_adam_update_one on vectors. All loads come before all stores: the arrays often lie whole pages
 * apart, and a load is delayed by an earlier store to the same offset in another page. */
static inline void update_some(const struct hd_adam_scalars *s, __m512 grad, const struct arrays *a,
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
    const struct hd_adam_scalars s = hd_adam_compute_scalars(adam, t);
    int exponent;
    /* The inverse of a power of two is exact. */
    const bool invert = frexpf(count, &exponent) == 0.5f;
    const float factor = invert ? 1 / count : count;
    int64_t i = 0;
#ifdef __AVX512F__
    const struct arrays a = {m, v, params};
    const __m512 factors = _mm512_set1_ps(factor), scales = _mm512_set1_ps(scale);
    for (; invert && i + LANES <= n; i += LANES)
        update_some(&s, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(sum + i), factors), scales), &a,
                    i);
    for (; i + LANES <= n; i += LANES)
        update_some(&s, _mm512_mul_ps(_mm512_div_ps(_mm512_loadu_ps(sum + i), factors), scales), &a,
                    i);
#endif
    for (; i < n; i++)
        hd_adam_update_one(&s, (invert ? sum[i] * factor : sum[i] / factor) * scale, m + i, v + i,
                           params + i);
}
