/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/learn.h"

#include "tasks/types/base/policy.h"
#include "tasks/types/base/sequences.h"

#include <string.h>

static int64_t count_batch_rows(const struct hd_config *config)
{
    return hd_config_get_int(config, "policy.learn.batch_size") *
           hd_config_get_int(config, "policy.learn.accumulate");
}

/* With fewer samples N than rows B, DI-engine takes the last min(B - N, N) samples
 * (docs/di-engine.md 3.5). */
struct hd_minibatch_split hd_minibatch_split_read(const struct hd_config *config)
{
    const int64_t samples = hd_config_get_int(config, "policy.collect.n_sample");
    const int64_t rows = count_batch_rows(config);
    struct hd_minibatch_split shape = {
        .samples = samples,
        .rows = rows < samples ? rows : samples,
        .count = (samples + rows - 1) / rows,
        .steps = hd_sequences_read(config).steps,
        .overlap =
            strcmp(hd_config_get_text(config, "policy.learn.minibatch_tail"), "overlap") == 0,
    };
    if (shape.overlap && samples < rows && rows - samples < samples)
        shape.rows = rows - samples;
    return shape;
}

void hd_minibatch_split_get_range(const struct hd_minibatch_split *split, int64_t i, int64_t *lo_p,
                                  int64_t *hi_p)
{
    const bool last = i + 1 == split->count;
    *hi_p = last ? split->samples : (i + 1) * split->rows;
    *lo_p = last && split->overlap ? split->samples - split->rows : i * split->rows;
}

struct hd_learn_shape hd_learn_shape_read(const struct hd_config *config)
{
    const bool on_policy = hd_policy_get(config)->on_policy;
    const int64_t batch = hd_config_get_int(config, "policy.learn.batch_size");
    struct hd_learn_shape shape = {
        .rows = on_policy ? hd_minibatch_split_read(config).rows : count_batch_rows(config),
        .micro = hd_config_get_int(config, "policy.learn.microbatch"),
    };
    if (shape.micro == 0)
        shape.micro = batch < shape.rows ? batch : shape.rows;
    shape.partials = shape.micro < shape.rows ? shape.rows / shape.micro : 1;
    return shape;
}
