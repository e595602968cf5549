/* SPDX-License-Identifier: Apache-2.0 */
/* Adam (Kingma & Ba 2015) as PyTorch computes it (spec 2.5), without weight decay. Thread safe. */
#ifndef HD_KERNELS_ADAM_H
#define HD_KERNELS_ADAM_H

#include <stdint.h>

struct hd_adam {
    double learning_rate, beta1, beta2, epsilon;
};

/* PyTorch's defaults for all but the learning rate: 0.9, 0.999, 1e-8. */
struct hd_adam hd_adam_default(double learning_rate);

/* Update number t >= 1 of n elements by g = sum / count * scale (1 and 1: g = sum, by bits), each
 * on its own, so ranges may be updated apart: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -=
 * lr / (1
 * - b1^t) m / (sqrt v / sqrt(1 - b2^t) + eps). */
void hd_adam_step(const struct hd_adam *adam, int64_t t, int64_t n, const float *sum, float count,
                  float scale, float *m, float *v, float *params);

#endif
