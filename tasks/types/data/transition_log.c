/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/transition_log.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/arena.h"

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_recording_shape *shape, void *memory,
                       struct hd_recording *recording)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs * shape->steps, stack = shape->obs.stack;
    recording->played = hd_arena_take(&arena, 1, sizeof *recording->played);
    recording->n_frames = hd_arena_take(&arena, 1, sizeof *recording->n_frames);
    recording->episodes = hd_arena_take(&arena, 1, sizeof *recording->episodes);
    recording->returns = hd_arena_take(&arena, 1, sizeof *recording->returns);
    recording->present = hd_arena_take(&arena, shape->envs * stack, sizeof *recording->present);
    recording->obs = hd_arena_take(&arena, n * stack, sizeof *recording->obs);
    recording->next_obs = hd_arena_take(&arena, n * stack, sizeof *recording->next_obs);
    recording->action = hd_arena_take(&arena, n, sizeof *recording->action);
    recording->episode = hd_arena_take(&arena, n, sizeof *recording->episode);
    recording->reward = hd_arena_take(&arena, n, sizeof *recording->reward);
    recording->done = hd_arena_take(&arena, n, sizeof *recording->done);
    recording->truncated = hd_arena_take(&arena, n, sizeof *recording->truncated);
    recording->frame = hd_arena_take(&arena, shape->frames, (size_t)shape->obs.frame_bytes);
    return arena.used;
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Rounds as equal as they can be. */
static void choose_rounds(struct hd_recording_shape *shape, int64_t round_bytes)
{
    const int64_t steps = quotient_up(shape->transitions, shape->envs);
    const int64_t max = round_bytes / (shape->envs * shape->obs.frame_bytes);
    shape->rounds = max > 1 ? quotient_up(steps, max) : steps;
    shape->steps = quotient_up(steps, shape->rounds);
}

int hd_recording_declare(const struct hd_setup *setup, struct hd_spec *spec, int64_t transitions,
                         int64_t round_bytes)
{
    struct hd_recording unused;
    if (spec->shape)
        return hd_recording_shape(spec)->transitions == transitions
                   ? HD_OK
                   : hd_diag_add_error(setup->diag, setup->location,
                                       "'%s' already holds a recording of another length",
                                       spec->name);
    struct hd_recording_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->envs = hd_config_get_int(setup->config, "env.collector_env_num");
    shape->transitions = transitions;
    shape->obs = hd_obs_shape_of(setup->config);
    choose_rounds(shape, round_bytes);
    /* Those of the first observations, then one a step and one more where an episode begins. */
    shape->frames = shape->envs * (shape->obs.stack + 2 * shape->steps);
    spec->shape = shape;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

const struct hd_recording_shape *hd_recording_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_recording hd_recording_at(const struct hd_recording_shape *shape, void *data)
{
    struct hd_recording recording;
    lay_out(shape, data, &recording);
    return recording;
}

const struct hd_type hd_type_recording = {.name = "transition_log"};
