/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/gpu_envs.h"

#include "runtime/base/status.h"
#include "tasks/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_envs_shape *shape, void *memory,
                       struct hd_pixel_pong_envs *envs)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs;
    envs->group = hd_arena_take(&arena, hd_pixel_pong_get_cuda_bytes(n), 1);
    envs->episode_seed = hd_arena_take(&arena, n, sizeof *envs->episode_seed);
    envs->episode = hd_arena_take(&arena, n, sizeof *envs->episode);
    envs->episode_return = hd_arena_take(&arena, n, sizeof *envs->episode_return);
    envs->episode_steps = hd_arena_take(&arena, n, sizeof *envs->episode_steps);
    envs->shown = hd_arena_take(&arena, n, sizeof *envs->shown);
    envs->obs = hd_arena_take(&arena, n, (size_t)shape->obs.obs_bytes);
    return arena.used;
}

static int background_of(const struct hd_envs_shape *shape)
{
    int background = -1;
    for (int i = 0; i < shape->settings.n_options; i++)
        if (strcmp(shape->settings.options[i].name, "background") == 0)
            background = atoi(shape->settings.options[i].value);
    return background;
}

static int refuse(const struct hd_spec *spec, const struct hd_setup *setup, const char *key,
                  const char *message)
{
    const struct hd_node *node = hd_config_get_node(setup->config, key);
    return hd_diag_add_error(setup->diag, node ? node->location : spec->location, "%s: %s", key,
                             message);
}

static int check_setup(const struct hd_spec *spec, const struct hd_setup *setup)
{
    const char *type = hd_config_get_text(setup->config, "env.type");
    char message[HD_ENV_MESSAGE];
    snprintf(message, sizeof message, "gpu_envs supports %s only, found %.60s",
             hd_env_pixel_pong.name, type);
    if (strcmp(type, hd_env_pixel_pong.name) != 0)
        return refuse(spec, setup, "env.type", message);
    const int64_t groups = hd_config_get_int(setup->config, "policy.collect.env_groups");
    snprintf(message, sizeof message, "gpu_envs needs a single group, found %lld",
             (long long)groups);
    if (groups != 1)
        return refuse(spec, setup, "policy.collect.env_groups", message);
    if (!spec->role || strcmp(spec->role, "collector") != 0)
        return hd_diag_add_error(setup->diag, spec->location, "gpu_envs '%s' needs role: collector",
                                 spec->name);
    return HD_OK;
}

/* The shape is that of the type `envs`. */
static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_pixel_pong_envs unused;
    HD_TRY(check_setup(spec, setup));
    HD_TRY(hd_type_envs.resolve(spec, setup));
    spec->bytes = lay_out(spec->shape, NULL, &unused);
    return HD_OK;
}

static void release(struct hd_spec *spec)
{
    hd_type_envs.release(spec);
}

struct hd_pixel_pong_envs hd_gpu_envs_get(const struct hd_spec *spec, void *data, uint64_t seed,
                                          int64_t shard)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_pixel_pong_envs envs = {
        .envs = shape->envs, .stack = shape->obs.stack, .seed = seed, .shard = shard};
    lay_out(shape, data, &envs);
    return envs;
}

static int init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard, void *data)
{
    const struct hd_pixel_pong_envs envs = hd_gpu_envs_get(spec, data, setup->seed, shard);
    hd_pixel_pong_init_cuda(envs.group, envs.envs, background_of(spec->shape));
    return HD_OK;
}

static int check(const struct hd_spec *spec, const void *data, char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_pixel_pong_envs envs = hd_gpu_envs_get(spec, (void *)data, 0, 0);
    const int64_t n = envs.envs;
    HD_TRY(hd_numbers_check_i64(message, "episode", envs.episode, n, 0, HD_COUNT_MAX));
    HD_TRY(hd_numbers_check_i64(message, "episode_steps", envs.episode_steps, n, 0, HD_COUNT_MAX));
    HD_TRY(hd_numbers_check_i64(message, "shown", envs.shown, n, 0, HD_COUNT_MAX));
    HD_TRY(hd_numbers_check_f64(message, "episode_return", envs.episode_return, n, -INFINITY));
    if (hd_pixel_pong_is_cuda_possible(envs.group, n, background_of(spec->shape)))
        return HD_OK;
    snprintf(message, HD_NUMBERS_MESSAGE, "these are no games of this kind");
    return HD_ERR_FORMAT;
}

const struct hd_type hd_type_gpu_envs = {
    .name = "gpu_envs",
    .size_key = "env.collector_env_num",
    .resolve = resolve,
    .release = release,
    .init = init,
    .check = check,
};
