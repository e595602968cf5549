/* SPDX-License-Identifier: Apache-2.0 */
/* Adam (Kingma & Ba 2015) as PyTorch computes it (spec 2.5), without weight decay. Thread safe. */
#ifndef HD_KERNELS_LEARN_ADAM_H
#define HD_KERNELS_LEARN_ADAM_H

#include "kernels/common/partials.h"

#include <stdint.h>

struct hd_adam {
    double learning_rate, beta1, beta2, epsilon;
};

/* PyTorch's defaults for all but the learning rate: 0.9, 0.999, 1e-8. */
struct hd_adam hd_adam_make(double learning_rate);

/* Update number t >= 1 of n elements by g = sum / count * scale (1 and 1: g = sum, by bits), each
 * on its own, so ranges may be updated apart: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -=
 * lr / (1 - b1^t) m / (sqrt v / sqrt(1 - b2^t) + eps). */
void hd_adam_step(const struct hd_adam *adam, int64_t t, int64_t n, const float *sum, float count,
                  float scale, float *m, float *v, float *params);

enum { HD_ADAM_SCRATCH = 8 };

/* The same on a GPU, of elements [lo, lo + n) of partials, m, v and params, which are all given
 * from element 0 on: by g = the partials' mean as hd_partials_mean_cuda has it * scale. *updates is
 * the number of steps before this one; it is increased first, and scratch[HD_ADAM_SCRATCH] takes
 * the step's scalars. updates = NULL: more elements of the step that `scratch` was filled for. The
 * same bits as hd_adam_step as long as pow differs by less than the rounding to float hides: two
 * libraries that disagree in a double's last bit differ after one in some 10^5 steps, by a float's
 * last bit. All pointers are the device's but for adam and grad, which are read before the call
 * returns, as `scale` is. */
int hd_adam_step_cuda(const struct hd_adam *adam, const struct hd_partials *grad, int64_t lo,
                      int64_t n, float scale, int64_t *updates, float *scratch, float *m, float *v,
                      float *params, void *stream);

#endif
