/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `sample_replay`: samples a batch from the replay ring, one transition from each of B equal
 * strata, in ring order (docs/di-engine.md 2.8). Item i of the step's stream chooses row i. */
#include "kernels/replay/replay.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/data/batch.h"

enum { REPLAY, BATCH };

static const struct hd_port ports[] = {
    [REPLAY] = {.name = "replay", .type = "replay", .mode = HD_READ},
    [BATCH] = {.name = "batch", .type = "batch", .mode = HD_WRITE},
    {0},
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    (void)args_p;
    return hd_setup_check_order(setup, "policy.learn.batch_size",
                                "policy.other.replay_buffer.replay_buffer_size",
                                "the replay never holds a batch, so that nothing would be learned");
}

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const struct hd_replay_shape *ring_shape = views[REPLAY].spec->shape;
    const struct hd_transition_shape *batch_shape = hd_batch_get_shape(views[BATCH].spec);
    struct hd_transitions rows = hd_batch_get_rows(views[BATCH].spec, views[BATCH].data);
    const struct hd_batch_use use = hd_batch_get_use(views[BATCH].spec, views[BATCH].data);
    int64_t size = hd_replay_get_size(ring_shape, views[REPLAY].data);
    if (size == 0)
        return hd_body_fail(context, "replay '%s' is empty: sample it `when: %s.size >= …` only",
                            views[REPLAY].spec->name, views[REPLAY].spec->name);
    for (int64_t i = 0; i < batch_shape->rows; i++) {
        double u = hd_rng_draw_uniform(&context->rng, (uint32_t)i);
        int64_t position = hd_replay_get_stratum(i, u, batch_shape->rows, size);
        hd_replay_get(ring_shape, views[REPLAY].data, position, batch_shape, rows, i);
        use.weight[i] = 1;
    }
    *use.used = batch_shape->rows;
    return HD_OK;
}

#if HD_CUDA
static int set_inputs(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views, (void)args;
    *(struct hd_rng *)context->inputs = context->rng;
    return HD_OK;
}

/* Only the GPU knows the size of the ring: from an empty one it makes a batch in which no row
 * counts. */
static int body_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const struct hd_view *batch = &views[BATCH];
    const struct hd_batch_use use = hd_batch_get_use(batch->spec, batch->data);
    return hd_replay_sample_cuda(views[REPLAY].spec->shape, views[REPLAY].data, context->inputs,
                                 hd_batch_get_shape(batch->spec),
                                 hd_batch_get_rows(batch->spec, batch->data), use.weight, use.used,
                                 context->stream);
}

static const struct hd_gpu_verb on_gpu = {.body = body_on_gpu,
                                          .graph_capturable = true,
                                          .set_inputs = set_inputs,
                                          .input_bytes = sizeof(struct hd_rng)};
#endif

const struct hd_verb hd_verb_sample_replay = {
    .name = "sample_replay",
    .stream_id = 0x06a58212247c13bb,
    .ports = ports,
    .prepare = prepare,
    .body = body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "samples a batch from the replay ring, one transition from each of equal strata",
};
