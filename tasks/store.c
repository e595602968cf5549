/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `store`: the frames and transitions of a rollout go into the replay ring, in order. */
#include "kernels/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/rollout.h"

enum { ROLLOUT, REPLAY };

static const struct hd_port ports[] = {
    [ROLLOUT] = {.name = "rollout", .type = "rollout", .mode = HD_READ},
    [REPLAY] = {.name = "replay", .type = "replay", .mode = HD_UPDATE},
    {0},
};

struct args {
    int64_t n_sample, capacity;
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    args->n_sample = hd_config_int(setup->config, "policy.collect.n_sample");
    args->capacity = hd_config_int(setup->config, "policy.other.replay_buffer.replay_buffer_size");
    *args_p = args;
    return HD_OK;
}

static int64_t next_size(const void *memory, const int64_t *counted)
{
    const struct args *args = memory;
    const int64_t size = counted[0] + args->n_sample;
    return size < args->capacity ? size : args->capacity;
}

static const struct hd_count counts[] = {{REPLAY, "size", next_size}, {0}};

/* Frames are known by their numbers, so none may be missing. */
static int check_order(struct hd_context *context, const struct hd_view *views,
                       const struct hd_rollout *rollout)
{
    const struct hd_replay_shape *shape = views[REPLAY].spec->shape;
    for (int64_t env = 0; env < shape->envs; env++) {
        int64_t next = hd_replay_shown(shape, views[REPLAY].data, env);
        if (rollout->first[env] != next)
            return hd_body_fail(context,
                                "'%s' starts with frame %lld of env %lld, but '%s' needs frame "
                                "%lld next: every collect must be stored, once",
                                views[ROLLOUT].spec->name, (long long)rollout->first[env],
                                (long long)env, views[REPLAY].spec->name, (long long)next);
    }
    return HD_OK;
}

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const struct hd_replay_shape *shape = views[REPLAY].spec->shape;
    const struct hd_rollout_shape *from = hd_rollout_shape(views[ROLLOUT].spec);
    const struct hd_rollout rollout = hd_rollout_at(from, views[ROLLOUT].data);
    void *ring = views[REPLAY].data;
    HD_TRY(check_order(context, views, &rollout));
    for (int64_t i = 0; i < *rollout.n_frames; i++)
        hd_replay_add_frame(shape, ring, rollout.env[i], rollout.frames + i * from->frame_bytes);
    for (int64_t i = 0; i < from->n_sample; i++)
        hd_replay_add(shape, ring, hd_transition_at(rollout.transitions, from->nstep, i));
    return HD_OK;
}

const struct hd_verb hd_verb_store = {
    .name = "store",
    .ports = ports,
    .counts = counts,
    .prepare = prepare,
    .body = body,
    .help = "puts a rollout into the replay ring, over the oldest transitions",
};
