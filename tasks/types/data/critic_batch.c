/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/critic_batch.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/learn/learn.h"

static int64_t lay_out(const struct hd_critic_batch_shape *shape, void *memory,
                       struct hd_critic_batch *batch)
{
    struct hd_arena arena = {.memory = memory};
    batch->used = hd_arena_take(&arena, 1, sizeof *batch->used);
    batch->input =
        hd_arena_take(&arena, shape->rows * (shape->obs + shape->dims), sizeof *batch->input);
    batch->target = hd_arena_take(&arena, shape->rows, sizeof *batch->target);
    return arena.used;
}

static int critic_batch_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const struct hd_env_actions actions = hd_actions_read(setup->config);
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config);
    struct hd_critic_batch unused;
    if (obs.u8 || actions.kind != HD_ENV_BOX)
        return hd_diag_add_error(setup->diag, spec->location,
                                 "'%s' joins observations of floats with real numbers as actions, "
                                 "found %s (policy.model.obs_shape, policy.action_space)",
                                 spec->name,
                                 hd_obs_has_parts(&obs) ? "several parts"
                                 : obs.u8               ? "frames of bytes"
                                                        : "choices");
    struct hd_critic_batch_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->rows = hd_learn_shape_read(setup->config).rows;
    shape->obs = obs.obs_bytes / (int64_t)sizeof(float);
    shape->dims = actions.dims;
    spec->shape = shape;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

const struct hd_critic_batch_shape *hd_critic_batch_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_critic_batch hd_critic_batch_get(const struct hd_spec *spec, void *data)
{
    struct hd_critic_batch batch;
    lay_out(spec->shape, data, &batch);
    return batch;
}

static int critic_batch_check(const struct hd_spec *spec, const void *data,
                              char message[HD_NUMBERS_MESSAGE])
{
    return hd_number_check(message, "used", -1, *hd_critic_batch_get(spec, (void *)data).used, 0,
                           hd_critic_batch_get_shape(spec)->rows);
}

const struct hd_type hd_type_critic_batch = {.name = "critic_batch",
                                             .none = true,
                                             .size_key = "policy.learn.batch_size",
                                             .resolve = critic_batch_resolve,
                                             .check = critic_batch_check};
