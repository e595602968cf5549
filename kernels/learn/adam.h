/* SPDX-License-Identifier: Apache-2.0 */
/* Adam (Kingma & Ba 2015) as PyTorch computes it (docs/di-engine.md 2.5), without weight decay.
 * Thread safe on different memory. */
#pragma once

#include "kernels/common/partials.h"
#include "kernels/common/scalar.h"
#include "kernels/common/tiles.h"
#include "runtime/base/inline.h"

#include <stdint.h>

struct hd_adam {
    double learning_rate, beta1, beta2, epsilon;
};

/* Returns PyTorch's defaults for everything but the learning rate: 0.9, 0.999, 1e-8. */
struct hd_adam hd_adam_make(double learning_rate);

/* Does update number t >= 1 of n elements with the gradient g = sum / count * scale (count and
 * scale 1: g = sum to the bit): m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr / (1 -
 * b1^t) m / (sqrt v / sqrt(1 - b2^t) + eps). Elements are independent of each other, so ranges may
 * be updated separately. */
void hd_adam_step(const struct hd_adam *adam, int64_t t, int64_t n, const float *sum, float count,
                  float scale, float *m, float *v, float *params);

/* Returns the factor that scales a gradient of this norm down to the length `longest`, at most 1,
 * as torch.nn.utils.clip_grad_norm_ computes it. NaN: 1. */
HD_INLINE float hd_adam_get_scale(double longest, double norm)
{
    const double coefficient = longest / (norm + 1e-6);
    return coefficient < 1 ? (float)coefficient : 1;
}

/* A step on a GPU reads these when it runs, in memory that the GPU addresses. */
struct hd_adam_inputs {
    const struct hd_scalar *norm; /* of the gradient; NULL: it is not clipped */
    double longest;               /* norm to which it is clipped */
    const struct hd_scalar *rate; /* learning rate; NULL or no value: that of struct hd_adam */
};

enum { HD_ADAM_SCRATCH = 9 };

/* Does the update on a GPU, of parameters [lo, lo + n) of the flat array of `tiles` and the shadow
 * weights that come from them, with g = the partials' mean (hd_partials_mean_cuda) * scale by
 * `inputs`. With gpu_order, there is one partial, which has counts and is in GPU order. m and v are
 * given from element 0 on. *updates is the number of steps before this one; it is increased first,
 * and scratch[HD_ADAM_SCRATCH] receives the step's scalars. With updates = NULL, the call updates
 * more elements in the step that `scratch` was filled for. Parameters have the bits of hd_adam_step
 * unless the two pow functions differ by more than the rounding to float hides: libraries that
 * disagree in a double's last bit differ in one of some 10^5 steps by a float's last bit. Padding
 * of the flat array is left as it is. All pointers are to device memory except adam, grad, tiles
 * and inputs, which are read before the call returns. Returns HD_OK, HD_ERR_DEVICE or an error of
 * hd_partials_mean_cuda (logged). */
int hd_adam_step_cuda(const struct hd_adam *adam, const struct hd_partials *grad, bool gpu_order,
                      const struct hd_tiles *tiles, int64_t lo, int64_t n,
                      const struct hd_adam_inputs *inputs, int64_t *updates, float *scratch,
                      float *m, float *v, void *stream);
