/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `shuffle`: makes a new permutation of a shard's samples (Fisher and Yates), or of the
 * sequences of a recurrent net, whose samples keep their order. Item i of the step's stream chooses
 * the sample or sequence at index i. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/data/permutation.h"

enum { PERMUTATION };

static const struct hd_port ports[] = {
    [PERMUTATION] = {"permutation", "permutation", .mode = HD_WRITE},
    {0},
};

/* Replaces the numbers of n sequences by those of their samples, the last one first. */
static void expand_sequences(int64_t n, int64_t steps, int32_t *sample)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        const int64_t first = sample[i] * steps;
        for (int64_t t = 0; t < steps; t++)
            sample[i * steps + t] = (int32_t)(first + t);
    }
}

static int shuffle_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    struct hd_permutation *permutation = views[PERMUTATION].data;
    const struct hd_minibatch_split *split = hd_permutation_get_split(views[PERMUTATION].spec);
    const int64_t n = split->samples / split->steps;
    permutation->taken = 0;
    for (int64_t i = 0; i < n; i++)
        permutation->sample[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = hd_rng_draw_below(&context->rng, (uint32_t)i, i + 1);
        const int32_t moved = permutation->sample[j];
        permutation->sample[j] = permutation->sample[i];
        permutation->sample[i] = moved;
    }
    if (split->steps > 1)
        expand_sequences(n, split->steps, permutation->sample);
    return HD_OK;
}

const struct hd_verb hd_verb_shuffle = {
    .name = "shuffle",
    .stream_id = 0xaf9fe1a0d95842c4,
    .ports = ports,
    .body = shuffle_body,
    .help = "makes a new permutation of the samples",
};
