/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/trajectories.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/collect/surplus.h"

#include <math.h>
#include <string.h>

static void lay_out_counts(const struct hd_trajectories_shape *shape, struct hd_arena *arena,
                           struct hd_trajectories *t)
{
    const int64_t envs = shape->envs, steps = envs * shape->steps;
    t->made = hd_arena_take(arena, 1, sizeof *t->made);
    t->forward = hd_arena_take(arena, 1, sizeof *t->forward);
    t->ended = hd_arena_take(arena, 1, sizeof *t->ended);
    t->shown = hd_arena_take(arena, envs, sizeof *t->shown);
    t->age = hd_arena_take(arena, envs, sizeof *t->age);
    t->pending = hd_arena_take(arena, envs, sizeof *t->pending);
    t->ended_return = hd_arena_take(arena, steps, sizeof *t->ended_return);
    t->ended_steps = hd_arena_take(arena, steps, sizeof *t->ended_steps);
}

/* Returns the floats of the states of all sequences. */
static int64_t count_states(const struct hd_trajectories_shape *shape)
{
    return shape->envs * (shape->steps / shape->sequences.steps) * shape->sequences.state;
}

/* Returns the bytes of a group; memory NULL: only counts. Frames come last. */
static int64_t lay_out(const struct hd_trajectories_shape *shape, void *memory,
                       struct hd_trajectories *t)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t envs = shape->envs, steps = envs * shape->steps;
    lay_out_counts(shape, &arena, t);
    t->row = hd_arena_take(&arena, shape->samples, sizeof *t->row);
    t->end = hd_arena_take(&arena, shape->samples, sizeof *t->end);
    t->frame = hd_arena_take(&arena, steps, sizeof *t->frame);
    t->frame_age = hd_arena_take(&arena, steps, sizeof *t->frame_age);
    t->action = hd_arena_take(&arena, steps * shape->actions.dims, sizeof *t->action);
    t->reward = hd_arena_take(&arena, steps, sizeof *t->reward);
    t->done = hd_arena_take(&arena, steps, sizeof *t->done);
    t->logit = hd_arena_take(&arena, steps * shape->logits, sizeof *t->logit);
    t->value = hd_arena_take(&arena, steps, sizeof *t->value);
    t->state = hd_arena_take(&arena, count_states(shape), sizeof *t->state);
    t->frames = hd_arena_take(&arena, envs * shape->frames, (size_t)shape->obs.frame_bytes);
    return arena.used;
}

static int64_t group_bytes(const struct hd_trajectories_shape *shape)
{
    struct hd_trajectories unused;
    return lay_out(shape, NULL, &unused);
}

/* Sets how far a collect can go. If the end of an episode does not complete a fragment, all
 * fragments are complete after L steps. If it does: before the last step fewer than Q samples are
 * made and at most L - 1 steps of each env are pending. An env whose fragments were completed early
 * goes on with a new one, so it may make L - 1 steps more than the L after which the other envs are
 * done. Each step shows a frame, and so may the start of an episode after it. */
static void set_limits(struct hd_trajectories_shape *shape)
{
    shape->fragment = hd_fragment_count(shape->samples, shape->envs);
    shape->steps = shape->segment_at_done ? 2 * shape->fragment - 1 : shape->fragment;
    shape->frames = shape->obs.stack + 2 * shape->steps;
}

/* These are numbers of all groups together. */
static const struct hd_field keys[] = {
    HD_FIELD(struct hd_trajectories_shape, groups, "policy.collect.env_groups"),
    HD_FIELD(struct hd_trajectories_shape, envs, "env.collector_env_num"),
    HD_FIELD(struct hd_trajectories_shape, samples, "policy.collect.n_sample"),
    HD_FIELD(struct hd_trajectories_shape, segment_at_done, "policy.collect.segment_at_done"),
    {0},
};

static int check_groups(const struct hd_spec *spec, const struct hd_setup *setup, int64_t n_sample,
                        int64_t groups)
{
    if (n_sample % groups == 0)
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, hd_config_locate(setup->config, "policy.collect.env_groups", spec->location),
        "policy.collect.env_groups: expected a divisor of policy.collect.n_sample "
        "%lld, found %lld",
        (long long)n_sample, (long long)groups);
}

static int trajectories_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const struct hd_config *config = setup->config;
    struct hd_trajectories_shape whole = {
        .actions = hd_actions_read(config),
        .obs = hd_obs_shape_read(config),
        .sequences = hd_sequences_read(config),
    };
    hd_config_read(config, keys, &whole);
    HD_TRY(check_groups(spec, setup, whole.samples, whole.groups));
    struct hd_trajectories_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    *shape = whole;
    shape->envs = whole.envs / whole.groups;
    shape->samples = whole.samples / whole.groups;
    shape->logits = hd_actions_count_logits(&shape->actions);
    shape->envs = shape->envs > 0 ? shape->envs : 1; /* the type `envs` refuses more groups */
    set_limits(shape);
    spec->shape = shape;
    spec->partials = whole.groups;
    spec->bytes = whole.groups * group_bytes(shape);
    return HD_OK;
}

const struct hd_trajectories_shape *hd_trajectories_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_trajectories hd_trajectories_get(const struct hd_spec *spec, void *data, int64_t group)
{
    struct hd_trajectories t;
    lay_out(spec->shape, (char *)data + group * group_bytes(spec->shape), &t);
    return t;
}

struct hd_steps hd_trajectories_get_steps(const struct hd_spec *spec, const void *data)
{
    const struct hd_trajectories_shape *shape = spec->shape;
    const struct hd_trajectories t = hd_trajectories_get(spec, (void *)data, 0);
    const char *start = data;
    return (struct hd_steps){
        .data = data,
        .groups = spec->partials,
        .group_bytes = group_bytes(shape),
        .samples = shape->samples,
        .steps = shape->steps,
        .frames = shape->frames,
        .stack = shape->obs.stack,
        .frame_bytes = shape->obs.frame_bytes,
        .logits = shape->logits,
        .dims = shape->actions.dims,
        .at = {.row = (char *)t.row - start,
               .end = (char *)t.end - start,
               .frame = (char *)t.frame - start,
               .frame_age = (char *)t.frame_age - start,
               .action = (char *)t.action - start,
               .reward = (char *)t.reward - start,
               .done = (char *)t.done - start,
               .logit = (char *)t.logit - start,
               .frames = t.frames - start},
    };
}

int64_t hd_trajectories_count_header_bytes(const struct hd_spec *spec)
{
    const struct hd_trajectories_shape *shape = spec->shape;
    return group_bytes(shape) - hd_align_up(shape->envs * shape->frames * shape->obs.frame_bytes);
}

int64_t hd_trajectories_get_counter_bytes(const struct hd_spec *spec)
{
    struct hd_arena arena = {0};
    struct hd_trajectories unused;
    lay_out_counts(spec->shape, &arena, &unused);
    return arena.used;
}

/* -- Frames ------------------------------------------------------------------------------------ */

static char *frame_at(const struct hd_trajectories_shape *shape,
                      const struct hd_trajectories *group, int64_t env, int64_t frame)
{
    return group->frames + (env * shape->frames + frame) * shape->obs.frame_bytes;
}

struct hd_frame_upload hd_trajectories_get_show(const struct hd_trajectories_shape *shape,
                                                const struct hd_trajectories *group)
{
    return (struct hd_frame_upload){
        .envs = shape->envs,
        .frames = shape->frames,
        .stack = shape->obs.stack,
        .frame_bytes = shape->obs.frame_bytes,
        .host_frames = group->frames,
        .shown = group->shown,
        .age = group->age,
    };
}

float *hd_trajectories_get_state(const struct hd_trajectories_shape *shape,
                                 const struct hd_trajectories *group, int64_t env, int64_t i)
{
    const int64_t each = shape->steps / shape->sequences.steps;
    return group->state + (env * each + i) * shape->sequences.state;
}

/* While the episode has fewer frames than an observation, its first frame stands in for the missing
 * ones. */
void hd_trajectories_copy_obs(const struct hd_trajectories_shape *shape,
                              const struct hd_trajectories *group, int64_t step, int ahead,
                              void *obs)
{
    const int64_t env = step / shape->steps, last = group->frame[step] + ahead;
    const int64_t first = group->frame[step] - group->frame_age[step], stack = shape->obs.stack;
    const int64_t bytes = shape->obs.frame_bytes;
    int64_t missing = first - (last - stack + 1);
    missing = missing > 0 ? missing : 0;
    for (int64_t i = 0; i < missing; i++)
        memcpy((char *)obs + i * bytes, frame_at(shape, group, env, first), (size_t)bytes);
    memcpy((char *)obs + missing * bytes, frame_at(shape, group, env, last - stack + 1 + missing),
           (size_t)((stack - missing) * bytes));
}

/* -- The content is what is used: all arrays and the frames that are there --------------------- */

static size_t count_header_bytes(const struct hd_trajectories *t)
{
    return (size_t)(t->frames - (const char *)t->made);
}

void hd_trajectories_clear(const struct hd_spec *spec, void *data, int64_t group)
{
    struct hd_trajectories t = hd_trajectories_get(spec, data, group);
    memset(t.made, 0, count_header_bytes(&t));
}

/* Calls visit for each range of memory that is in use, in order; stops at the first failure. */
static int visit_used(const struct hd_spec *spec, const void *data,
                      int (*visit)(void *arg, char *memory, size_t bytes), void *arg)
{
    const struct hd_trajectories_shape *shape = spec->shape;
    for (int64_t group = 0; group < spec->partials; group++) {
        const struct hd_trajectories t = hd_trajectories_get(spec, (void *)data, group);
        HD_TRY(visit(arg, (char *)t.made, count_header_bytes(&t)));
        for (int64_t env = 0; env < shape->envs; env++) {
            if (t.shown[env] < 0 || t.shown[env] > shape->frames)
                return HD_ERR_FORMAT;
            HD_TRY(visit(arg, frame_at(shape, &t, env, 0),
                         (size_t)(t.shown[env] * shape->obs.frame_bytes)));
        }
    }
    return HD_OK;
}

/* An observation ends at a step's frame or at the one after it, and begins in its episode. */
static int check_steps(const struct hd_trajectories_shape *shape, const struct hd_trajectories *t,
                       char message[HD_NUMBERS_MESSAGE])
{
    const int64_t steps = shape->envs * shape->steps;
    for (int64_t i = 0; i < steps; i++) {
        HD_TRY(hd_number_check(message, "frame", i, t->frame[i], 0, shape->frames - 2));
        HD_TRY(hd_number_check(message, "frame_age", i, t->frame_age[i], 0, t->frame[i]));
    }
    HD_TRY(hd_actions_check(&shape->actions, t->action, steps, message));
    HD_TRY(hd_numbers_check_f32(message, "reward", t->reward, steps, -INFINITY));
    HD_TRY(hd_numbers_check_f32(message, "done", t->done, steps, 0));
    HD_TRY(hd_numbers_check_f32(message, "logit", t->logit, steps * shape->logits, -INFINITY));
    HD_TRY(hd_numbers_check_f32(message, "value", t->value, steps, -INFINITY));
    return hd_numbers_check_f32(message, "state", t->state, count_states(shape), -INFINITY);
}

static int check_group(const struct hd_trajectories_shape *shape, const struct hd_trajectories *t,
                       char message[HD_NUMBERS_MESSAGE])
{
    const int64_t envs = shape->envs, steps = envs * shape->steps;
    HD_TRY(hd_number_check(message, "made", -1, *t->made, 0, shape->samples + steps));
    HD_TRY(hd_number_check(message, "forward", -1, *t->forward, 0, shape->steps));
    HD_TRY(hd_number_check(message, "ended", -1, *t->ended, 0, steps));
    HD_TRY(hd_numbers_check_i64(message, "shown", t->shown, envs, 0, shape->frames));
    HD_TRY(hd_numbers_check_i64(message, "age", t->age, envs, 0, shape->obs.stack));
    HD_TRY(hd_numbers_check_i64(message, "pending", t->pending, envs, 0, shape->fragment));
    HD_TRY(hd_numbers_check_f64(message, "ended_return", t->ended_return, steps, -INFINITY));
    HD_TRY(hd_numbers_check_f64(message, "ended_steps", t->ended_steps, steps, 0));
    HD_TRY(hd_numbers_check_i32(message, "row", t->row, shape->samples, 0, steps - 1));
    HD_TRY(hd_numbers_check_f32(message, "end", t->end, shape->samples, 0));
    return check_steps(shape, t, message);
}

static int trajectories_check(const struct hd_spec *spec, const void *data,
                              char message[HD_NUMBERS_MESSAGE])
{
    for (int64_t group = 0; group < spec->partials; group++) {
        const struct hd_trajectories t = hd_trajectories_get(spec, (void *)data, group);
        HD_TRY(check_group(spec->shape, &t, message));
    }
    return HD_OK;
}

struct transfer {
    const struct hd_spec *spec;
    FILE *file;
    char *to;
    const char *from;
    uint64_t hash;
};

static int copy_block(void *arg, char *memory, size_t bytes)
{
    const struct transfer *transfer = arg;
    memcpy(transfer->to + (memory - transfer->from), memory, bytes);
    return HD_OK;
}

static int write_block(void *arg, char *memory, size_t bytes)
{
    const struct transfer *transfer = arg;
    return hd_value_write(transfer->spec, memory, bytes, transfer->file);
}

static int read_block(void *arg, char *memory, size_t bytes)
{
    const struct transfer *transfer = arg;
    return hd_value_read(transfer->spec, memory, bytes, transfer->file);
}

static int hash_block(void *arg, char *memory, size_t bytes)
{
    struct transfer *transfer = arg;
    transfer->hash = hd_hash_mix(transfer->hash, hd_hash_bytes(memory, bytes));
    return HD_OK;
}

static int snapshot(const struct hd_spec *spec, void *dst, const void *src)
{
    struct transfer transfer = {.to = dst, .from = src};
    return visit_used(spec, src, copy_block, &transfer);
}

static int trajectories_save(const struct hd_spec *spec, const void *data, FILE *file)
{
    struct transfer transfer = {.spec = spec, .file = file};
    return visit_used(spec, data, write_block, &transfer);
}

/* The arrays of a group are read before its frames, so that their number is known. */
static int trajectories_load(const struct hd_spec *spec, void *data, FILE *file)
{
    struct transfer transfer = {.spec = spec, .file = file};
    int status = visit_used(spec, data, read_block, &transfer);
    if (status == HD_ERR_FORMAT && !feof(file))
        hd_fail(status, "value '%s' cannot be loaded: it has more frames than fit", spec->name);
    return status;
}

static uint64_t trajectories_hash(const struct hd_spec *spec, const void *data)
{
    struct transfer transfer = {0};
    visit_used(spec, data, hash_block, &transfer);
    return transfer.hash;
}

const struct hd_type hd_type_trajectories = {
    .name = "trajectories",
    .none = true,
    .size_key = "policy.collect.n_sample",
    .resolve = trajectories_resolve,
    .snapshot = snapshot,
    .save = trajectories_save,
    .load = trajectories_load,
    .check = trajectories_check,
    .hash = trajectories_hash,
};
