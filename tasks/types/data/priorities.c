/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/priorities.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

static const struct hd_field keys[] = {
    HD_FIELD(struct hd_priorities_shape, capacity, "policy.other.replay_buffer.replay_buffer_size"),
    HD_FIELD(struct hd_priorities_shape, alpha, "policy.other.replay_buffer.alpha"),
    {0},
};

static int priorities_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_priorities_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    hd_config_read(setup->config, keys, shape);
    spec->shape = shape;
    spec->bytes = hd_priorities_get_bytes(shape);
    return HD_OK;
}

const struct hd_priorities_shape *hd_priorities_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

int hd_priorities_check_use(const struct hd_setup *setup, const struct hd_spec *value,
                            const char *port)
{
    const bool asked = hd_config_get_bool(setup->config, "policy.priority");
    if (asked == (value != NULL))
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, hd_config_locate(setup->config, "policy.priority", setup->location),
        asked ? "policy.priority: true: the step %s of this graph has no value for its port '%s'; "
                "graphs/dqn_priority.yaml has"
              : "policy.priority must be true: the step %s of this graph has a value for its port "
                "'%s'",
        setup->verb, port);
}

static int priorities_save(const struct hd_spec *spec, const void *data, FILE *file)
{
    return hd_value_write(spec, data, (size_t)hd_priorities_get_saved_bytes(spec->shape), file);
}

static int priorities_load(const struct hd_spec *spec, void *data, FILE *file)
{
    HD_TRY(hd_value_read(spec, data, (size_t)hd_priorities_get_saved_bytes(spec->shape), file));
    hd_priorities_build(spec->shape, data);
    return HD_OK;
}

static int priorities_check(const struct hd_spec *spec, const void *data,
                            char message[HD_NUMBERS_MESSAGE])
{
    return hd_priorities_check(spec->shape, data, message);
}

const struct hd_type hd_type_priorities = {
    .name = "priorities",
    .used_by_updates = true,
    .size_key = "policy.other.replay_buffer.replay_buffer_size",
    .resolve = priorities_resolve,
    .save = priorities_save,
    .load = priorities_load,
    .check = priorities_check,
};
