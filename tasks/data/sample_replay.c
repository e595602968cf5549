/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `sample_replay`: samples a batch from the replay ring, one transition from each of B equal
 * strata, in ring order (docs/di-engine.md 2.8), or of B strata of equal sums of weights if there
 * are priorities (2.9). Item i of the step's stream chooses row i. The rows are normalised as they
 * are drawn if there are running statistics (policy.collect.normalize_obs and normalize_reward). */
#include "kernels/replay/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/data/normalize.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/priorities.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/output/moments.h"

#include <math.h>

enum { REPLAY, BATCH, PRIORITIES, OBS_NORM, REWARD_NORM };

static const struct hd_port ports[] = {
    [REPLAY] = {"replay", "replay", .mode = HD_READ},
    [BATCH] = {"batch", "batch", .mode = HD_WRITE},
    [PRIORITIES] = {"priorities", "priorities", .mode = HD_UPDATE, .optional = true},
    [OBS_NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true},
    [REWARD_NORM] = {"reward_norm", "moments", .mode = HD_READ, .optional = true},
    {0},
};

struct args {
    bool importance; /* weighs rows by their importance */
    bool normalizes;
    int64_t anneal_steps;
    double beta, anneal; /* exponent of the first draw, and how much it grows with each */
};

static const struct hd_field importance_keys[] = {
    HD_FIELD(struct args, anneal_steps, "policy.other.replay_buffer.anneal_step"),
    HD_FIELD(struct args, beta, "policy.other.replay_buffer.beta"),
    {0},
};

static int sample_replay_declare(const struct hd_setup *setup)
{
    return hd_moments_declare_norms(setup, setup->specs[OBS_NORM], setup->specs[REWARD_NORM]);
}

static int check_batch(const struct hd_setup *setup)
{
    static const char batch[] = "policy.learn.batch_size",
                      size[] = "policy.other.replay_buffer.replay_buffer_size";
    const int64_t rows = hd_learn_shape_read(setup->config).rows,
                  most = hd_config_get_int(setup->config, size);
    if (rows <= most)
        return HD_OK;
    return hd_diag_add_error(
        setup->diag,
        hd_config_locate(setup->config, batch,
                         hd_config_locate(setup->config, size, setup->location)),
        "%s: expected at most %s, which is %lld, found %lld%s: the replay never holds a batch, so "
        "that nothing would be learned",
        batch, size, (long long)most, (long long)rows,
        rows == hd_config_get_int(setup->config, batch) ? "" : " with policy.learn.accumulate");
}

static int sample_replay_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->normalizes = setup->specs[OBS_NORM] || setup->specs[REWARD_NORM];
    args->importance = hd_config_get_bool(setup->config, "policy.priority_IS_weight");
    if (args->importance)
        hd_config_read(setup->config, importance_keys, args);
    args->anneal = args->anneal_steps > 0 ? (1 - args->beta) / (double)args->anneal_steps : 0;
    HD_TRY(hd_moments_check_norms(setup, ports, OBS_NORM, REWARD_NORM));
    HD_TRY(hd_priorities_check_use(setup, setup->specs[PRIORITIES], "priorities"));
    return check_batch(setup);
}

/* Draws all rows by the priorities of this version. */
static int sample_by_priority(struct hd_context *context, const struct hd_view *views,
                              const struct args *args)
{
    const struct hd_view *replay = &views[REPLAY], *batch = &views[BATCH];
    const struct hd_priorities_shape *shape = hd_priorities_get_shape(views[PRIORITIES].spec);
    const struct hd_transition_shape *batch_shape = hd_batch_get_shape(batch->spec);
    const struct hd_transitions rows = hd_batch_get_rows(batch->spec, batch->data);
    const struct hd_batch_draws draws = hd_batch_get_draws(batch->spec, batch->data);
    struct hd_priorities *priorities = views[PRIORITIES].data;
    int64_t first, end;
    hd_replay_get_held(replay->spec->shape, replay->data, &first, &end);
    if (first != priorities->first || end != priorities->end)
        return hd_body_fail(context,
                            "'%s' and '%s' have different transitions: every push_replay of the "
                            "one must update both",
                            replay->spec->name, views[PRIORITIES].spec->name);
    const double beta = fmin(1, args->beta + (double)priorities->draws++ * args->anneal);
    for (int64_t i = 0; i < batch_shape->rows; i++) {
        const double u = hd_rng_draw_uniform(&context->rng, (uint32_t)i);
        const int64_t number =
            hd_priorities_find(shape, priorities, ((double)i + u) / (double)batch_shape->rows);
        hd_replay_get_number(replay->spec->shape, replay->data, number, batch_shape, rows, i);
        draws.number[i] = number;
        draws.importance[i] =
            args->importance ? hd_priorities_compute_importance(shape, priorities, number, beta)
                             : 1;
    }
    return HD_OK;
}

static void sample_uniformly(struct hd_context *context, const struct hd_view *views, int64_t size)
{
    const struct hd_replay_shape *ring_shape = views[REPLAY].spec->shape;
    const struct hd_transition_shape *batch_shape = hd_batch_get_shape(views[BATCH].spec);
    const struct hd_transitions rows = hd_batch_get_rows(views[BATCH].spec, views[BATCH].data);
    for (int64_t i = 0; i < batch_shape->rows; i++) {
        double u = hd_rng_draw_uniform(&context->rng, (uint32_t)i);
        int64_t position = hd_replay_get_stratum(i, u, batch_shape->rows, size);
        hd_replay_get(ring_shape, views[REPLAY].data, position, batch_shape, rows, i);
    }
}

static void normalize(const struct hd_view *views)
{
    const struct hd_transition_shape *shape = hd_batch_get_shape(views[BATCH].spec);
    const struct hd_transitions rows = hd_batch_get_rows(views[BATCH].spec, views[BATCH].data);
    const int64_t elements = shape->obs_bytes / (int64_t)sizeof(float);
    hd_normalize_obs(&views[OBS_NORM], shape->rows, elements, rows.obs);
    hd_normalize_obs(&views[OBS_NORM], shape->rows, elements, rows.next_obs);
    hd_normalize_rewards(&views[REWARD_NORM], shape->nstep * shape->rows, rows.reward);
}

static int sample_replay_body(struct hd_context *context, const struct hd_view *views,
                              const void *args)
{
    const struct hd_replay_shape *ring_shape = views[REPLAY].spec->shape;
    const struct hd_transition_shape *batch_shape = hd_batch_get_shape(views[BATCH].spec);
    const struct hd_batch_use use = hd_batch_get_use(views[BATCH].spec, views[BATCH].data);
    int64_t size = hd_replay_get_size(ring_shape, views[REPLAY].data);
    if (size == 0)
        return hd_body_fail(context, "replay '%s' is empty: sample it `when: %s.size >= …` only",
                            views[REPLAY].spec->name, views[REPLAY].spec->name);
    for (int64_t i = 0; i < batch_shape->rows; i++)
        use.weight[i] = 1;
    *use.used = batch_shape->rows;
    if (views[PRIORITIES].data)
        HD_TRY(sample_by_priority(context, views, args));
    else
        sample_uniformly(context, views, size);
    normalize(views);
    return HD_OK;
}

#if HD_CUDA
static bool supports(const void *memory)
{
    return !((const struct args *)memory)->normalizes;
}

/* Only the GPU knows the size of the ring: from an empty one it makes a batch in which no row
 * counts. */
static int sample_replay_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                     const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *batch = &views[BATCH], *priorities = &views[PRIORITIES];
    const struct hd_batch_use use = hd_batch_get_use(batch->spec, batch->data);
    struct hd_replay_draws by = {
        .weighs = args->importance, .beta = args->beta, .anneal = args->anneal};
    if (priorities->data) {
        const struct hd_batch_draws draws = hd_batch_get_draws(batch->spec, batch->data);
        by.shape = *hd_priorities_get_shape(priorities->spec);
        by.priorities = priorities->data;
        by.number = draws.number;
        by.importance = draws.importance;
    }
    return hd_replay_sample_cuda(views[REPLAY].spec->shape, views[REPLAY].data, context->inputs,
                                 hd_batch_get_shape(batch->spec),
                                 hd_batch_get_rows(batch->spec, batch->data), use.weight, use.used,
                                 by.priorities ? &by : NULL, context->stream);
}

static const struct hd_gpu_verb on_gpu = {.body = sample_replay_body_on_gpu,
                                          .supports = supports,
                                          .graph_capturable = true,
                                          .set_inputs = hd_inputs_set_rng,
                                          .input_bytes = sizeof(struct hd_rng)};
#endif

const struct hd_verb hd_verb_sample_replay = {
    .name = "sample_replay",
    .stream_id = 0x06a58212247c13bb,
    .ports = ports,
    .declare = sample_replay_declare,
    .prepare = sample_replay_prepare,
    .body = sample_replay_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "samples a batch from the replay ring, one transition from each of equal strata, or by "
            "priorities",
};
