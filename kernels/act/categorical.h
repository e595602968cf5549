/* SPDX-License-Identifier: Apache-2.0 */
/* Draws of actions from rows of logits. Thread safe; the CUDA form only launches a kernel. */
#pragma once

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

enum { HD_CATEGORICAL_GROUPS = 16 }; /* that one launch draws for */

/* Some rows with draws of their own: device memory or memory that the GPU addresses. */
struct hd_categorical_group {
    const struct hd_draws *draws;
    int32_t *action; /* [rows] */
    float *kept;     /* [rows][n], or NULL */
};

/* Draws the actions of n_groups groups, at most HD_CATEGORICAL_GROUPS, of `rows` rows each: row i
 * of a group by logit[n_groups][rows][ld], device memory, of which the first n numbers of a row
 * count, with the uniform number of item draws->first + i of draws->rng. Also copies the logits to
 * `kept`. Actions equal hd_categorical_draw's, except where u is within 1e-14 of the boundary
 * between two actions, because exp may differ in its last bit. One launch, which reads the draws
 * when it runs. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_categorical_draw_cuda(const float *logit, int64_t ld, int64_t n, int64_t rows,
                             const struct hd_categorical_group *groups, int64_t n_groups,
                             void *stream);
