/* SPDX-License-Identifier: Apache-2.0 */
/* Adam's formula for one element, shared by CPUs and GPUs. Thread safe. */
#pragma once

#include "kernels/learn/adam.h"
#include "runtime/base/inline.h"

#include <math.h>

struct hd_adam_scalars {
    float step, root, root_inverse, b1, c1, b2, c2, epsilon;
    float scale; /* of the gradient, on GPUs */
};

/* Computes the scalars of update t in double, rounded once, as PyTorch does. */
HD_INLINE struct hd_adam_scalars hd_adam_compute_scalars(const struct hd_adam *adam, int64_t t)
{
    struct hd_adam_scalars s;
    s.step = (float)(adam->learning_rate / (1 - pow(adam->beta1, (double)t)));
    s.root = (float)sqrt(1 - pow(adam->beta2, (double)t));
    s.root_inverse = 1 / s.root;
    s.b1 = (float)adam->beta1;
    s.c1 = (float)(1 - adam->beta1);
    s.b2 = (float)adam->beta2;
    s.c2 = (float)(1 - adam->beta2);
    s.epsilon = (float)adam->epsilon;
    s.scale = 1;
    return s;
}

/* Returns x / root, correctly rounded, by the rounded inverse and one step of refinement (Markstein
 * 1990), because divisions take most of Adam's time. */
HD_INLINE float hd_adam_divide_by_root(const struct hd_adam_scalars *s, float x)
{
#if defined(__FMA__) || defined(__CUDA_ARCH__)
    const float quotient = x * s->root_inverse;
    return fmaf(fmaf(-quotient, s->root, x), s->root_inverse, quotient);
#else
    return x / s->root;
#endif
}

/* Updates one element by its gradient. */
HD_INLINE void hd_adam_update_one(const struct hd_adam_scalars *s, float grad, float *m, float *v,
                                  float *param)
{
    const float first = s->b1 * *m + s->c1 * grad;
    const float second = s->b2 * *v + s->c2 * grad * grad;
    *m = first;
    *v = second;
    *param -= s->step * (first / (hd_adam_divide_by_root(s, sqrtf(second)) + s->epsilon));
}
