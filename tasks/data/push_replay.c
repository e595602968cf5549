/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `push_replay`: appends the frames and transitions of a transition block to the replay ring,
 * in order. */
#include "kernels/replay/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/data/priorities.h"

enum { TRANSITION_BLOCK, REPLAY, PRIORITIES };

static const struct hd_port ports[] = {
    [TRANSITION_BLOCK] = {"transitions", "transition_block", .mode = HD_READ},
    [REPLAY] = {"replay", "replay", .mode = HD_UPDATE},
    [PRIORITIES] = {"priorities", "priorities", .mode = HD_UPDATE, .optional = true},
    {0},
};

struct args {
    int64_t n_sample, capacity;
    int64_t frames; /* most frames of a transition block */
};

static const struct hd_field keys[] = {
    HD_FIELD(struct args, n_sample, "policy.collect.n_sample"),
    HD_FIELD(struct args, capacity, "policy.other.replay_buffer.replay_buffer_size"),
    {0},
};

static int push_replay_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    hd_config_read(setup->config, keys, args);
    args->frames = hd_transition_block_get_shape(setup->specs[TRANSITION_BLOCK])->frames;
    *args_p = args;
    HD_TRY(hd_priorities_check_use(setup, setup->specs[PRIORITIES], "priorities"));
    return hd_setup_check_order(setup, "policy.collect.n_sample",
                                "policy.other.replay_buffer.replay_buffer_size",
                                "a collect would overwrite what it has just pushed");
}

static int64_t next_size(const void *memory, const int64_t *counted)
{
    const struct args *args = memory;
    const int64_t size = counted[0] + args->n_sample;
    return size < args->capacity ? size : args->capacity;
}

static const struct hd_counted_attribute counted[] = {{REPLAY, "size", next_size}, {0}};

/* Returns 1 + the first env of which a frame is missing between ring and block, or 0. Transitions
 * name frames by number, so none may be missing. */
static int64_t find_gap(const struct hd_view *replay, const struct hd_transition_block *block)
{
    const struct hd_replay_shape *shape = replay->spec->shape;
    for (int64_t env = 0; env < shape->envs; env++)
        if (block->first[env] != hd_replay_count_shown(shape, replay->data, env))
            return 1 + env;
    return 0;
}

/* New transitions get the largest priority so far. */
static void push_priorities(const struct hd_view *replay, const struct hd_view *priorities)
{
    int64_t first, end;
    hd_replay_get_held(replay->spec->shape, replay->data, &first, &end);
    hd_priorities_push(hd_priorities_get_shape(priorities->spec), priorities->data, first, end);
}

static int push_replay_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)args;
    const struct hd_replay_shape *shape = views[REPLAY].spec->shape;
    const struct hd_transition_block_shape *from =
        hd_transition_block_get_shape(views[TRANSITION_BLOCK].spec);
    const struct hd_transition_block block =
        hd_transition_block_get(from, views[TRANSITION_BLOCK].data);
    struct hd_replay_result *report = context->header;
    void *ring = views[REPLAY].data;
    report->broken = find_gap(&views[REPLAY], &block);
    for (int64_t i = 0; !report->broken && i < *block.n_frames; i++)
        hd_replay_add_frame(shape, ring, block.env[i], block.frames + i * from->frame_bytes);
    for (int64_t i = 0; !report->broken && i < from->n_sample; i++)
        hd_replay_add(shape, ring,
                      hd_transition_get(block.transitions, from->nstep, shape->dims, i));
    if (views[PRIORITIES].data)
        push_priorities(&views[REPLAY], &views[PRIORITIES]);
    return HD_OK;
}

static void push_replay_get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    (void)args;
    *subtasks_p = (struct hd_subtasks){
        .items = 1, .stages = 1, .header_bytes = sizeof(struct hd_replay_result)};
}

static int push_replay_finish(struct hd_context *context, const struct hd_view *views,
                              const void *args)
{
    (void)args;
    const struct hd_replay_result *report = context->headers[0];
    if (report->broken == 0)
        return HD_OK;
    return hd_body_fail(context,
                        "'%s' does not continue with the frame of env %lld that '%s' needs next: "
                        "every collect must be pushed exactly once",
                        views[TRANSITION_BLOCK].spec->name, (long long)report->broken - 1,
                        views[REPLAY].spec->name);
}

#if HD_CUDA
static int64_t scratch_on_gpu(const void *memory)
{
    return hd_replay_get_scratch_bytes(((const struct args *)memory)->frames);
}

static int push_replay_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                   const void *args)
{
    (void)args;
    const struct hd_transition_block_shape *from =
        hd_transition_block_get_shape(views[TRANSITION_BLOCK].spec);
    const struct hd_transition_block block =
        hd_transition_block_get(from, views[TRANSITION_BLOCK].data);
    const struct hd_replay_input input = {
        .n_frames = block.n_frames,
        .max_frames = from->frames,
        .env = block.env,
        .frames = block.frames,
        .first = block.first,
        .transitions = block.transitions,
        .n_transitions = from->n_sample,
    };
    const struct hd_view *replay = &views[REPLAY], *priorities = &views[PRIORITIES];
    HD_TRY(hd_replay_push_cuda(replay->spec->shape, replay->data, &input, context->scratch,
                               context->header, context->stream));
    return priorities->data
               ? hd_replay_push_priorities_cuda(replay->spec->shape, replay->data,
                                                hd_priorities_get_shape(priorities->spec),
                                                priorities->data, context->stream)
               : HD_OK;
}

static const struct hd_gpu_verb on_gpu = {
    .body = push_replay_body_on_gpu, .scratch = scratch_on_gpu, .graph_capturable = true};
#endif

const struct hd_verb hd_verb_push_replay = {
    .name = "push_replay",
    .stream_id = 0xa13763df740e071e,
    .ports = ports,
    .counted = counted,
    .prepare = push_replay_prepare,
    .body = push_replay_body,
    .get_subtasks = push_replay_get_subtasks,
    .finish = push_replay_finish,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "appends a transition block to the replay ring, overwriting the oldest transitions",
};
