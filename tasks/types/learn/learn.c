/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/learn.h"

#include "tasks/types/base/policy.h"
#include "tasks/types/base/sequences.h"

#include <string.h>

struct keys {
    int64_t batch, accumulate, micro;
    int64_t samples; /* the last two: of an algorithm that learns from minibatches of a collect */
    bool overlap;
};

static const struct hd_field learn_fields[] = {
    HD_FIELD(struct keys, batch, "policy.learn.batch_size"),
    HD_FIELD(struct keys, accumulate, "policy.learn.accumulate"),
    HD_FIELD(struct keys, micro, "policy.learn.microbatch"),
    {0},
};

static const struct hd_field split_fields[] = {
    HD_FIELD(struct keys, samples, "policy.collect.n_sample"),
    HD_FIELD_IS(struct keys, overlap, "policy.learn.minibatch_tail", "overlap"),
    {0},
};

/* With fewer samples N than rows B, DI-engine takes the last min(B - N, N) samples
 * (docs/di-engine.md 3.5). */
struct hd_minibatch_split hd_minibatch_split_read(const struct hd_config *config)
{
    struct keys keys;
    hd_config_read(config, learn_fields, &keys);
    hd_config_read(config, split_fields, &keys);
    const int64_t samples = keys.samples, rows = keys.batch * keys.accumulate;
    struct hd_minibatch_split shape = {
        .samples = samples,
        .rows = rows < samples ? rows : samples,
        .count = (samples + rows - 1) / rows,
        .steps = hd_sequences_read(config).steps,
        .overlap = keys.overlap,
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
    struct keys keys;
    hd_config_read(config, learn_fields, &keys);
    struct hd_learn_shape shape = {
        .rows = on_policy ? hd_minibatch_split_read(config).rows : keys.batch * keys.accumulate,
        .micro = keys.micro,
    };
    if (shape.micro == 0)
        shape.micro = keys.batch < shape.rows ? keys.batch : shape.rows;
    shape.partials = shape.micro < shape.rows ? shape.rows / shape.micro : 1;
    return shape;
}
