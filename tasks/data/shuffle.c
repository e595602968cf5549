/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `shuffle`: makes a new permutation of a shard's samples (Fisher and Yates). Item i of the
 * step's stream chooses the sample at index i. */
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/data/permutation.h"

enum { PERMUTATION };

static const struct hd_port ports[] = {
    [PERMUTATION] = {.name = "permutation", .type = "permutation", .mode = HD_WRITE},
    {0},
};

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    struct hd_permutation *permutation = views[PERMUTATION].data;
    const int64_t n = hd_permutation_get_split(views[PERMUTATION].spec)->samples;
    permutation->taken = 0;
    for (int64_t i = 0; i < n; i++)
        permutation->sample[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = hd_rng_draw_below(&context->rng, (uint32_t)i, i + 1);
        const int32_t moved = permutation->sample[j];
        permutation->sample[j] = permutation->sample[i];
        permutation->sample[i] = moved;
    }
    return HD_OK;
}

const struct hd_verb hd_verb_shuffle = {
    .name = "shuffle",
    .stream_id = 0xaf9fe1a0d95842c4,
    .ports = ports,
    .body = body,
    .help = "makes a new permutation of the samples",
};
