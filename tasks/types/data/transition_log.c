/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/transition_log.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_transition_log_shape *shape, void *memory,
                       struct hd_transition_log *log)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs * shape->steps, stack = shape->obs.stack;
    log->played = hd_arena_take(&arena, 1, sizeof *log->played);
    log->n_frames = hd_arena_take(&arena, 1, sizeof *log->n_frames);
    log->episodes = hd_arena_take(&arena, 1, sizeof *log->episodes);
    log->returns = hd_arena_take(&arena, 1, sizeof *log->returns);
    log->present = hd_arena_take(&arena, shape->envs * stack, sizeof *log->present);
    log->obs = hd_arena_take(&arena, n * stack, sizeof *log->obs);
    log->next_obs = hd_arena_take(&arena, n * stack, sizeof *log->next_obs);
    log->action = hd_arena_take(&arena, n * shape->actions.dims, sizeof *log->action);
    log->episode = hd_arena_take(&arena, n, sizeof *log->episode);
    log->reward = hd_arena_take(&arena, n, sizeof *log->reward);
    log->done = hd_arena_take(&arena, n, sizeof *log->done);
    log->truncated = hd_arena_take(&arena, n, sizeof *log->truncated);
    log->frame = hd_arena_take(&arena, shape->frames, (size_t)shape->obs.frame_bytes);
    return arena.used;
}

static int64_t divide_round_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Makes rounds as equal as possible. */
static void choose_rounds(struct hd_transition_log_shape *shape, int64_t round_bytes)
{
    const int64_t steps = divide_round_up(shape->transitions, shape->envs);
    const int64_t max = round_bytes / (shape->envs * shape->obs.frame_bytes);
    shape->rounds = max > 1 ? divide_round_up(steps, max) : steps;
    shape->steps = divide_round_up(steps, shape->rounds);
}

int hd_transition_log_declare(const struct hd_setup *setup, struct hd_spec *spec,
                              int64_t transitions, int64_t round_bytes)
{
    struct hd_transition_log unused;
    if (spec->shape)
        return hd_transition_log_get_shape(spec)->transitions == transitions
                   ? HD_OK
                   : hd_diag_add_error(setup->diag, setup->location,
                                       "'%s' already holds a log of another length", spec->name);
    struct hd_transition_log_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->envs = hd_config_get_int(setup->config, "env.collector_env_num");
    shape->transitions = transitions;
    shape->obs = hd_obs_shape_read(setup->config);
    shape->actions = hd_actions_read(setup->config);
    choose_rounds(shape, round_bytes);
    /* Each env has the frames of its first observation, then one for each step and one more for
     * each episode that begins. */
    shape->frames = shape->envs * (shape->obs.stack + 2 * shape->steps);
    spec->shape = shape;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

const struct hd_transition_log_shape *hd_transition_log_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_transition_log hd_transition_log_get(const struct hd_transition_log_shape *shape,
                                               void *data)
{
    struct hd_transition_log log;
    lay_out(shape, data, &log);
    return log;
}

/* Only `runner record` has such values, and it makes no checkpoints; what follows is what indexes.
 */
static int transition_log_check(const struct hd_spec *spec, const void *data,
                                char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_transition_log_shape *shape = spec->shape;
    const struct hd_transition_log log = hd_transition_log_get(shape, (void *)data);
    HD_TRY(hd_number_check(message, "played", -1, *log.played, 0, shape->steps));
    HD_TRY(hd_number_check(message, "n_frames", -1, *log.n_frames, 0, shape->frames));
    return hd_numbers_check_i32(message, "present", log.present, shape->envs * shape->obs.stack, 0,
                                shape->frames - 1);
}

const struct hd_type hd_type_transition_log = {
    .name = "transition_log", .none = true, .check = transition_log_check};
