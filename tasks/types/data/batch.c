/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/batch.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/learn/learn.h"

#include <string.h>

/* The part that bodies see comes first. */
struct shape {
    struct hd_transition_shape rows;
    struct hd_env_actions actions;
    bool u8; /* observations are bytes; else floats */
    bool priority;
};

/* The arrays behind the transitions. */
struct layout {
    struct hd_batch_use use;
    struct hd_batch_draws draws;
};

static int64_t lay_out(const struct shape *shape, void *memory, struct layout *layout_p)
{
    const int64_t rows = shape->rows.rows, drawn = shape->priority ? rows : 0;
    struct hd_arena arena = {memory, hd_transitions_get_bytes(&shape->rows)};
    layout_p->use.used = hd_arena_take(&arena, 1, sizeof *layout_p->use.used);
    layout_p->use.weight = hd_arena_take(&arena, rows, sizeof *layout_p->use.weight);
    layout_p->draws.number = hd_arena_take(&arena, drawn, sizeof *layout_p->draws.number);
    layout_p->draws.importance = hd_arena_take(&arena, drawn, sizeof *layout_p->draws.importance);
    if (!shape->priority)
        layout_p->draws = (struct hd_batch_draws){0};
    return arena.used;
}

static int batch_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct shape *whole = hd_alloc(1, sizeof *whole);
    if (!whole)
        return HD_ERR_NOMEM;
    struct hd_transition_shape *shape = &whole->rows;
    whole->actions = hd_actions_read(setup->config);
    shape->dims = whole->actions.dims;
    shape->rows = hd_learn_shape_read(setup->config).rows;
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config);
    shape->obs_bytes = obs.obs_bytes;
    whole->u8 = obs.u8;
    shape->nstep = hd_config_get_int(setup->config, "policy.nstep");
    shape->has_value_gamma = shape->nstep > 1;
    whole->priority = hd_config_get_bool(setup->config, "policy.priority");
    spec->shape = whole;
    struct layout unused;
    spec->bytes = lay_out(whole, NULL, &unused);
    return HD_OK;
}

const struct hd_transition_shape *hd_batch_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_transitions hd_batch_get_rows(const struct hd_spec *spec, void *data)
{
    return hd_transitions_lay_out(spec->shape, data);
}

struct hd_batch_use hd_batch_get_use(const struct hd_spec *spec, void *data)
{
    struct layout layout;
    lay_out(spec->shape, data, &layout);
    return layout.use;
}

struct hd_batch_draws hd_batch_get_draws(const struct hd_spec *spec, void *data)
{
    struct layout layout;
    lay_out(spec->shape, data, &layout);
    return layout.draws;
}

static int tensors(const struct hd_spec *spec, const void *data, struct hd_tensor_data *tensors_p)
{
    const struct hd_transition_shape *shape = spec->shape;
    const struct shape *whole = spec->shape;
    const struct hd_transitions rows_of = hd_transitions_lay_out(shape, (void *)data);
    const enum hd_dtype action_dtype =
        whole->actions.kind == HD_ENV_BOX ? HD_DTYPE_F32 : HD_DTYPE_I32;
    const int64_t rows = shape->rows;
    const int action_rank = shape->dims > 1 ? 2 : 1; /* as in data sets */
    const struct hd_tensor_data all[] = {
        hd_obs_make_tensor("obs", rows_of.obs, rows, shape->obs_bytes, whole->u8),
        hd_obs_make_tensor("next_obs", rows_of.next_obs, rows, shape->obs_bytes, whole->u8),
        {"reward", rows_of.reward, 2, {shape->nstep, rows}, HD_DTYPE_F32},
        {"done", rows_of.done, 1, {rows}, HD_DTYPE_F32},
        {"action", rows_of.action, action_rank, {rows, shape->dims}, action_dtype},
        {"value_gamma", rows_of.value_gamma, 1, {rows}, HD_DTYPE_F32},
    };
    const struct hd_batch_draws draws_of = hd_batch_get_draws(spec, (void *)data);
    const struct hd_tensor_data draws[] = {
        {"number", draws_of.number, 1, {rows}, HD_DTYPE_I64},
        {"importance", draws_of.importance, 1, {rows}, HD_DTYPE_F32},
    };
    const int n = shape->has_value_gamma ? 6 : 5;
    memcpy(tensors_p, all, (size_t)n * sizeof *all);
    if (!whole->priority)
        return n;
    memcpy(tensors_p + n, draws, sizeof draws);
    return n + 2;
}

static int batch_check(const struct hd_spec *spec, const void *data,
                       char message[HD_NUMBERS_MESSAGE])
{
    const struct shape *shape = spec->shape;
    const int64_t rows = shape->rows.rows;
    HD_TRY(
        hd_number_check(message, "used", -1, *hd_batch_get_use(spec, (void *)data).used, 0, rows));
    if (shape->priority)
        HD_TRY(hd_numbers_check_f32(message, "importance",
                                    hd_batch_get_draws(spec, (void *)data).importance, rows, 0));
    return hd_actions_check(&shape->actions, hd_batch_get_rows(spec, (void *)data).action, rows,
                            message);
}

const struct hd_type hd_type_batch = {.name = "batch",
                                      .none = true,
                                      .size_key = "policy.learn.batch_size",
                                      .resolve = batch_resolve,
                                      .check = batch_check,
                                      .tensors = tensors};
