/* SPDX-License-Identifier: Apache-2.0 */
/* Draws from a row of logits. Thread safe. */
#ifndef HD_KERNELS_CATEGORICAL_H
#define HD_KERNELS_CATEGORICAL_H

#include <stdint.h>

/* The action that u, uniform in [0, 1), selects from probabilities in proportion to
 * softmax(logit[n]) + 1e-8 (spec 3.3), in order of the actions. */
int64_t hd_categorical(const float *logit, int64_t n, double u);

#endif
