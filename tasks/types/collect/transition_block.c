/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/transition_block.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/collect/surplus.h"

#include <string.h>

static const struct hd_field keys[] = {
    HD_FIELD(struct hd_transition_block_shape, n_sample, "policy.collect.n_sample"),
    HD_FIELD(struct hd_transition_block_shape, envs, "env.collector_env_num"),
    HD_FIELD(struct hd_transition_block_shape, nstep, "policy.nstep"),
    HD_FIELD(struct hd_transition_block_shape, stack, "env.frame_stack"),
    {0},
};

/* A bound on how far a collect of n samples can go: before its last step of all E envs, at most n -
 * 1 samples are made and L - 1 steps of each env are pending, so the envs made at most n - 1 + E (L
 * - 1) steps; and as the end of an episode completes a fragment, at most n - 1 episodes ended. So
 * no env makes more than 2 L - 1 steps. Each step shows a frame, and so does each start of an
 * episode, the first one included. */
struct hd_transition_block_shape hd_transition_block_shape_read(const struct hd_config *config)
{
    struct hd_transition_block_shape shape = {
        .actions = hd_actions_read(config),
        .frame_bytes = hd_obs_shape_read(config).frame_bytes,
    };
    hd_config_read(config, keys, &shape);
    shape.fragment = hd_fragment_read(config);
    shape.frames_of_env = 2 * (2 * shape.fragment - 1) + 1;
    shape.frames = 2 * (shape.n_sample - 1) + shape.envs * (shape.fragment - 1) + 3 * shape.envs;
    return shape;
}

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_transition_block_shape *shape, void *memory,
                       struct hd_transition_block *block)
{
    struct hd_arena arena = {.memory = memory};
    block->n_frames = hd_arena_take(&arena, 1, sizeof *block->n_frames);
    block->first = hd_arena_take(&arena, shape->envs, sizeof *block->first);
    block->transitions =
        hd_arena_take(&arena, shape->n_sample,
                      (size_t)hd_transition_get_bytes(shape->nstep, shape->actions.dims));
    block->env = hd_arena_take(&arena, shape->frames, sizeof *block->env);
    block->frames = hd_arena_take(&arena, shape->frames, (size_t)shape->frame_bytes);
    return arena.used;
}

static int transition_block_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_transition_block unused;
    struct hd_transition_block_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    *shape = hd_transition_block_shape_read(setup->config);
    spec->shape = shape;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

const struct hd_transition_block_shape *hd_transition_block_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_transition_block hd_transition_block_get(const struct hd_transition_block_shape *shape,
                                                   void *data)
{
    struct hd_transition_block block;
    lay_out(shape, data, &block);
    return block;
}

/* -- The content is what is used: all arrays and the frames that are there --------------------- */

static size_t count_header_bytes(const struct hd_transition_block_shape *shape, const void *data)
{
    struct hd_transition_block block = hd_transition_block_get(shape, (void *)data);
    return (size_t)(block.frames - (const char *)data);
}

void hd_transition_block_clear(const struct hd_transition_block_shape *shape, void *data)
{
    memset(data, 0, count_header_bytes(shape, data));
}

static size_t used_bytes(const struct hd_spec *spec, const void *data)
{
    const struct hd_transition_block_shape *shape = spec->shape;
    struct hd_transition_block block = hd_transition_block_get(shape, (void *)data);
    return count_header_bytes(shape, data) + (size_t)(*block.n_frames * shape->frame_bytes);
}

static int snapshot(const struct hd_spec *spec, void *dst, const void *src)
{
    memcpy(dst, src, used_bytes(spec, src));
    return HD_OK;
}

static int transition_block_save(const struct hd_spec *spec, const void *data, FILE *file)
{
    return hd_value_write(spec, data, used_bytes(spec, data), file);
}

static int transition_block_load(const struct hd_spec *spec, void *data, FILE *file)
{
    const struct hd_transition_block_shape *shape = spec->shape;
    size_t header_bytes = count_header_bytes(shape, data);
    HD_TRY(hd_value_read(spec, data, header_bytes, file));
    int64_t frames = *hd_transition_block_get(shape, data).n_frames;
    if (frames < 0 || frames > shape->frames)
        return hd_fail(HD_ERR_FORMAT,
                       "value '%s' cannot be loaded: its capacity is below %lld frames", spec->name,
                       (long long)frames);
    return hd_value_read(spec, (char *)data + header_bytes, used_bytes(spec, data) - header_bytes,
                         file);
}

static int transition_block_check(const struct hd_spec *spec, const void *data,
                                  char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_transition_block_shape *shape = spec->shape;
    const struct hd_transition_block block = hd_transition_block_get(shape, (void *)data);
    HD_TRY(hd_numbers_check_i64(message, "first", block.first, shape->envs, 0, HD_COUNT_MAX));
    HD_TRY(hd_numbers_check_i32(message, "env", block.env, shape->frames, 0, shape->envs - 1));
    for (int64_t i = 0; i < shape->n_sample; i++)
        HD_TRY(hd_transition_check(
            hd_transition_get(block.transitions, shape->nstep, shape->actions.dims, i), i,
            shape->nstep, shape->stack, shape->envs, &shape->actions, message));
    return HD_OK;
}

static uint64_t transition_block_hash(const struct hd_spec *spec, const void *data)
{
    return hd_hash_bytes(data, used_bytes(spec, data));
}

const struct hd_type hd_type_transition_block = {
    .name = "transition_block",
    .none = true,
    .size_key = "policy.collect.n_sample",
    .resolve = transition_block_resolve,
    .snapshot = snapshot,
    .save = transition_block_save,
    .load = transition_block_load,
    .check = transition_block_check,
    .hash = transition_block_hash,
};
