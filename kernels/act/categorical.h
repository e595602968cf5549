/* SPDX-License-Identifier: Apache-2.0 */
/* Draws of actions from rows of logits. Thread safe; the CUDA form only launches a kernel. */
#ifndef HD_KERNELS_ACT_CATEGORICAL_H
#define HD_KERNELS_ACT_CATEGORICAL_H

#include "runtime/base/rng.h"

#include <math.h>
#include <stdint.h>

/* Returns the action that u, uniform in [0, 1), selects among n whose probabilities are
 * proportional to softmax(logit[n]) + 1e-8 (docs/di-engine.md 3.3). Intervals lie in the order of
 * the actions. */
HD_INLINE int64_t hd_categorical_draw(const float *logit, int64_t n, double u)
{
    const double min_prob = 1e-8, total = 1 + (double)n * min_prob;
    double max_logit = logit[0], sum = 0, below = 0;
    for (int64_t i = 1; i < n; i++)
        max_logit = logit[i] > max_logit ? logit[i] : max_logit;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logit[i] - max_logit);
    for (int64_t i = 0; i + 1 < n; i++) {
        below += exp((double)logit[i] - max_logit) / sum + min_prob;
        if (u * total < below)
            return i;
    }
    return n - 1;
}

/* Says where the draws of a launch lie in a random stream. */
struct hd_draws {
    struct hd_rng rng;
    uint32_t first; /* item of the first draw */
};

/* Draws action[rows]: row i of logit[rows][ld], whose first n numbers count, with the uniform
 * number of item draws->first + i of draws->rng. Also copies the logits to kept[rows][n], unless
 * that is NULL. `logit` is device memory; `action`, `kept` and `draws` are device or shared memory.
 * Actions equal hd_categorical_draw's, except where u is within 1e-14 of the boundary between two
 * actions, because exp may differ in its last bit. One launch, which reads `draws` when it runs.
 * Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_categorical_draw_cuda(const float *logit, int64_t ld, int64_t n, int64_t rows,
                             const struct hd_draws *draws, int32_t *action, float *kept,
                             void *stream);

#endif
