/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/minibatch.h"

#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/learn/learn.h"

#include <string.h>

static int64_t count_states(const struct hd_minibatch_shape *shape)
{
    return shape->rows / shape->sequences.steps * shape->sequences.state;
}

static int64_t lay_out(const struct hd_minibatch_shape *shape, void *memory,
                       struct hd_minibatch *batch)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t rows = shape->rows;
    batch->used = hd_arena_take(&arena, 1, sizeof *batch->used);
    batch->obs = hd_arena_take(&arena, rows, (size_t)shape->obs_bytes);
    batch->action = hd_arena_take(&arena, rows * shape->actions.dims, sizeof *batch->action);
    batch->logit = hd_arena_take(&arena, rows * shape->logits, sizeof *batch->logit);
    batch->advantage = hd_arena_take(&arena, rows, sizeof *batch->advantage);
    batch->target = hd_arena_take(&arena, rows, sizeof *batch->target);
    batch->value = hd_arena_take(&arena, rows, sizeof *batch->value);
    batch->state = hd_arena_take(&arena, count_states(shape), sizeof *batch->state);
    batch->begins =
        hd_arena_take(&arena, shape->sequences.state > 0 ? rows : 0, sizeof *batch->begins);
    return arena.used;
}

static int minibatch_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_minibatch unused;
    struct hd_minibatch_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->rows = hd_minibatch_split_read(setup->config).rows;
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config);
    shape->obs_bytes = obs.obs_bytes;
    shape->u8 = obs.u8;
    shape->actions = hd_actions_read(setup->config);
    shape->logits = hd_actions_count_logits(&shape->actions);
    shape->sequences = hd_sequences_read(setup->config);
    spec->shape = shape;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

const struct hd_minibatch_shape *hd_minibatch_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_minibatch hd_minibatch_get(const struct hd_spec *spec, void *data)
{
    struct hd_minibatch batch;
    lay_out(spec->shape, data, &batch);
    return batch;
}

static int tensors(const struct hd_spec *spec, const void *data, struct hd_tensor_data *tensors_p)
{
    const struct hd_minibatch_shape *shape = spec->shape;
    const struct hd_minibatch rows_of = hd_minibatch_get(spec, (void *)data);
    const enum hd_dtype action_dtype =
        shape->actions.kind == HD_ENV_BOX ? HD_DTYPE_F32 : HD_DTYPE_I32;
    const int64_t rows = shape->rows;
    const struct hd_sequences *sequences = &shape->sequences;
    const int action_rank = shape->actions.dims > 1 ? 2 : 1; /* as in data sets */
    const struct hd_tensor_data all[] = {
        {"used", rows_of.used, 1, {1}, HD_DTYPE_I64},
        hd_obs_make_tensor("obs", rows_of.obs, rows, shape->obs_bytes, shape->u8),
        {"action", rows_of.action, action_rank, {rows, shape->actions.dims}, action_dtype},
        {"logit", rows_of.logit, 2, {rows, shape->logits}, HD_DTYPE_F32},
        {"advantage", rows_of.advantage, 1, {rows}, HD_DTYPE_F32},
        {"target", rows_of.target, 1, {rows}, HD_DTYPE_F32},
        {"value", rows_of.value, 1, {rows}, HD_DTYPE_F32},
        {"state", rows_of.state, 2, {rows / sequences->steps, sequences->state}, HD_DTYPE_F32},
        {"begins", rows_of.begins, 1, {rows}, HD_DTYPE_F32},
    };
    const int n = (int)(sizeof all / sizeof *all) - (sequences->state > 0 ? 0 : 2);
    memcpy(tensors_p, all, (size_t)n * sizeof *all);
    return n;
}

static int minibatch_check(const struct hd_spec *spec, const void *data,
                           char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_minibatch_shape *shape = spec->shape;
    const struct hd_minibatch batch = hd_minibatch_get(spec, (void *)data);
    HD_TRY(hd_number_check(message, "used", -1, *batch.used, 0, shape->rows));
    return hd_actions_check(&shape->actions, batch.action, shape->rows, message);
}

const struct hd_type hd_type_minibatch = {.name = "minibatch",
                                          .none = true,
                                          .size_key = "policy.learn.batch_size",
                                          .resolve = minibatch_resolve,
                                          .check = minibatch_check,
                                          .tensors = tensors};
