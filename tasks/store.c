/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `store`: the transitions of a rollout go into the replay ring, in order. */
#include "kernels/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/transitions.h"

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

static int64_t next_size(const void *memory, int64_t size)
{
    const struct args *args = memory;
    size += args->n_sample;
    return size < args->capacity ? size : args->capacity;
}

static const struct hd_count counts[] = {{REPLAY, "size", next_size}, {0}};

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    const struct hd_transition_shape *rows = views[ROLLOUT].spec->shape;
    hd_replay_push(views[REPLAY].spec->shape, views[REPLAY].data, rows,
                   hd_transitions_at(rows, views[ROLLOUT].data));
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
