/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/obs.h"

#include "kernels/envs/find/find.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBS_SHAPE "policy.model.obs_shape"

bool hd_obs_has_inputs(const struct hd_config *config)
{
    const struct hd_node *inputs = hd_config_get_node(config, "policy.model.inputs");
    return inputs && (inputs->kind == HD_NODE_SCALAR || inputs->count > 0);
}

bool hd_obs_has_parts(const struct hd_obs_shape *obs)
{
    return obs->part[0].name[0] != 0;
}

/* Named parts begin at multiples of 4 bytes. */
static void add_part(struct hd_obs_shape *obs, const struct hd_obs_part *part)
{
    int64_t elements = 1;
    struct hd_obs_part *added = &obs->part[obs->n_parts++];
    *added = *part;
    added->offset = obs->frame_bytes;
    for (int i = 0; i < part->dims; i++)
        elements *= part->shape[i];
    added->bytes = elements / obs->stack * (part->u8 ? 1 : (int64_t)sizeof(float));
    obs->frame_bytes += added->bytes;
    obs->frame_bytes += part->name[0] ? -obs->frame_bytes & 3 : 0;
    obs->obs_bytes = obs->frame_bytes * obs->stack;
    obs->u8 = part->u8 || part->name[0];
}

/* Pictures have three dimensions. */
static void add_numbers(struct hd_obs_shape *obs, const char *name, const int64_t *numbers,
                        int64_t n)
{
    struct hd_obs_part part = {
        .name = name, .u8 = n == 3, .dims = (int)(n < HD_ENV_DIMS ? n : HD_ENV_DIMS)};
    memcpy(part.shape, numbers, (size_t)part.dims * sizeof *numbers);
    add_part(obs, &part);
}

static void add_node(struct hd_obs_shape *obs, const char *name, const struct hd_node *node)
{
    const bool one = node->kind == HD_NODE_SCALAR;
    const int64_t n = one ? 1 : node->count;
    int64_t numbers[HD_ENV_DIMS];
    for (int64_t i = 0; i < n && i < HD_ENV_DIMS; i++)
        numbers[i] = (int64_t)strtod((one ? node : node->items[i])->text, NULL);
    add_numbers(obs, name, numbers, n);
}

struct hd_obs_shape hd_obs_shape_read(const struct hd_config *config)
{
    int64_t dims;
    const struct hd_node *map = hd_config_get_shapes(config, OBS_SHAPE);
    const int64_t *numbers = hd_config_get_ints(config, OBS_SHAPE, &dims);
    struct hd_obs_shape obs = {.stack = hd_config_get_int(config, "env.frame_stack")};
    for (int64_t i = 0; map && i < map->count && i < HD_ENV_PARTS; i++)
        add_node(&obs, map->keys[i]->text, map->items[i]);
    if (!map)
        add_numbers(&obs, "", numbers, dims);
    return obs;
}

struct hd_obs_shape hd_obs_shape_make(const struct hd_env_spec *frame, int64_t stack)
{
    struct hd_obs_shape obs = {.stack = stack};
    for (int i = 0; i < hd_env_count_parts(frame); i++) {
        const struct hd_env_part from = hd_env_get_part(frame, i);
        struct hd_obs_part part = {.name = frame->n_parts > 0 ? frame->part[i].name : "",
                                   .u8 = from.element == HD_ENV_U8};
        part.dims = hd_env_get_obs_shape(&from, stack, part.shape);
        add_part(&obs, &part);
    }
    return obs;
}

struct hd_obs_shape hd_obs_shape_unstack(const struct hd_obs_shape *obs)
{
    struct hd_obs_shape frame = *obs;
    for (int i = 0; i < frame.n_parts; i++)
        frame.part[i].shape[0] /= obs->stack;
    frame.stack = 1;
    frame.obs_bytes = frame.frame_bytes;
    return frame;
}

const char *hd_obs_shape_write(const struct hd_obs_shape *obs, char text[HD_OBS_TEXT])
{
    const bool parts = hd_obs_has_parts(obs);
    int at = snprintf(text, HD_OBS_TEXT, "%s", parts ? "{" : "");
    for (int i = 0; i < obs->n_parts; i++) {
        const struct hd_obs_part *part = &obs->part[i];
        if (parts)
            at += snprintf(text + at, (size_t)(HD_OBS_TEXT - at), "%s%.*s: ", i > 0 ? ", " : "",
                           HD_ENV_PART_NAME, part->name);
        for (int d = 0; d < part->dims; d++)
            at += snprintf(text + at, (size_t)(HD_OBS_TEXT - at), "%s%lld", d > 0 ? ", " : "[",
                           (long long)part->shape[d]);
        at += snprintf(text + at, (size_t)(HD_OBS_TEXT - at), "]");
    }
    snprintf(text + at, (size_t)(HD_OBS_TEXT - at), "%s", parts ? "}" : "");
    return text;
}

struct hd_tensor_data hd_obs_make_tensor(const char *name, const void *obs, int64_t rows,
                                         int64_t obs_bytes, bool u8)
{
    const int64_t bytes = u8 ? 1 : (int64_t)sizeof(float);
    return (struct hd_tensor_data){
        name, obs, 2, {rows, obs_bytes / bytes}, u8 ? HD_DTYPE_U8 : HD_DTYPE_F32};
}

int hd_obs_refuse_parts(const struct hd_config *config, const char *key,
                        struct hd_source_location otherwise, const char *why, struct hd_diag *diag)
{
    const struct hd_obs_shape obs = hd_obs_shape_read(config);
    char text[HD_OBS_TEXT];
    if (!hd_obs_has_parts(&obs))
        return HD_OK;
    return hd_diag_add_error(diag, hd_config_locate(config, key, otherwise),
                             "%s: %s, found parts of observations, %s (policy.model.inputs)", key,
                             why, hd_obs_shape_write(&obs, text));
}
