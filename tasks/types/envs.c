/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/envs.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/arena.h"
#include "tasks/types/transitions.h"

#include <math.h>
#include <string.h>

/* Returns the bytes of an instance; memory NULL: only counts. */
static int64_t lay_out(const struct hd_envs_shape *shape, void *memory, struct hd_envs *envs)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs, steps = n * shape->chunk;
    envs->group = hd_arena_take(&arena, 1, sizeof *envs->group);
    envs->best_mean = hd_arena_take(&arena, 1, sizeof *envs->best_mean);
    envs->episode = hd_arena_take(&arena, n, sizeof *envs->episode);
    envs->episode_return = hd_arena_take(&arena, n, sizeof *envs->episode_return);
    envs->episode_steps = hd_arena_take(&arena, n, sizeof *envs->episode_steps);
    envs->pending = hd_arena_take(&arena, n, sizeof *envs->pending);
    envs->obs = hd_arena_take(&arena, (steps + n) * shape->obs_size, sizeof *envs->obs);
    envs->action = hd_arena_take(&arena, steps, sizeof *envs->action);
    envs->reward = hd_arena_take(&arena, steps, sizeof *envs->reward);
    return arena.used;
}

/* -- The environment of the run file -------------------------------------------------------------
 */

/* The options as the env's `create` takes them, or NULL without memory. */
static struct hd_env_option *read_options(const struct hd_node *map)
{
    struct hd_env_option *options = hd_alloc(map ? map->count : 0, sizeof *options);
    for (int64_t i = 0; options && map && i < map->count; i++)
        options[i] = (struct hd_env_option){map->keys[i]->text, map->items[i]->text};
    return options;
}

/* Makes a group of one env to learn what it shows. */
static int ask_spec(struct hd_envs_shape *shape, const struct hd_spec *spec,
                    const struct hd_setup *setup)
{
    const struct hd_node *node = hd_config_node(setup->config, "env.type");
    const struct hd_mark mark = node ? node->mark : spec->mark;
    const char *type = hd_config_text(setup->config, "env.type");
    struct hd_env_settings one = shape->settings;
    char message[HD_ENV_MESSAGE] = "";
    void *group;
    if (hd_env_find(type, &shape->env, message) != HD_OK)
        return hd_diag_error(setup->diag, mark, "env.type: %s", message);
    one.envs = 1;
    if (shape->env->create(&one, &shape->frame, &group, message) != 0)
        return hd_diag_error(setup->diag, mark, "env.type %s: %s", type, message);
    shape->state_bytes = shape->env->state_bytes(group);
    shape->env->destroy(group);
    shape->obs_size = hd_env_frame_bytes(&shape->frame) / (int64_t)sizeof(float);
    if (shape->frame.element != HD_ENV_F32 || hd_config_int(setup->config, "env.frame_stack") != 1)
        return hd_diag_error(setup->diag, mark, "env.type %s: only single frames of floats", type);
    return HD_OK;
}

/* The model must fit the env. */
static int check_model(const struct hd_spec *spec, const struct hd_setup *setup,
                       const struct hd_envs_shape *shape)
{
    int status = HD_OK;
    int64_t obs_size = hd_transition_shape_of(setup->config, 0).obs_size;
    int64_t actions = hd_config_int(setup->config, "policy.model.action_shape");
    if (obs_size != shape->obs_size)
        status = hd_diag_error(setup->diag, spec->mark,
                               "env.type %s shows %lld numbers, but policy.model.obs_shape is %lld",
                               shape->env->name, (long long)shape->obs_size, (long long)obs_size);
    if (actions != shape->frame.actions)
        status =
            hd_diag_error(setup->diag, spec->mark,
                          "env.type %s has %lld actions, but policy.model.action_shape is %lld",
                          shape->env->name, (long long)shape->frame.actions, (long long)actions);
    return status;
}

static int fill_shape(struct hd_envs_shape *shape, const struct hd_spec *spec,
                      const struct hd_setup *setup)
{
    const struct hd_node *options = hd_config_node(setup->config, "env.options");
    const bool evaluator = strcmp(spec->role, "evaluator") == 0;
    shape->evaluator = evaluator;
    shape->envs =
        hd_config_int(setup->config, evaluator ? "env.evaluator_env_num" : "env.collector_env_num");
    int64_t n_sample = hd_config_int(setup->config, "policy.collect.n_sample");
    shape->chunk = evaluator ? 0 : (n_sample + shape->envs - 1) / shape->envs;
    shape->settings = (struct hd_env_settings){
        .envs = shape->envs,
        .evaluator = evaluator,
        .env_id = hd_config_text(setup->config, "env.env_id"),
        .options = read_options(options),
        .n_options = options ? (int)options->count : 0,
    };
    if (!shape->settings.options)
        return HD_ERR_NOMEM;
    HD_TRY(ask_spec(shape, spec, setup));
    return check_model(spec, setup, shape);
}

static void release_shape(struct hd_envs_shape *shape)
{
    if (shape)
        hd_free((void *)shape->settings.options);
    hd_free(shape);
}

static void release(struct hd_spec *spec)
{
    release_shape(spec->shape);
}

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const char *role = spec->role ? spec->role : "";
    if (strcmp(role, "evaluator") != 0 && strcmp(role, "collector") != 0)
        return hd_diag_error(setup->diag, spec->mark,
                             "envs '%s' needs role: collector or role: evaluator", spec->name);
    struct hd_envs_shape *shape = hd_alloc(1, sizeof *shape);
    int status = shape ? fill_shape(shape, spec, setup) : HD_ERR_NOMEM;
    if (status != HD_OK) {
        release_shape(shape);
        return status;
    }
    spec->shape = shape;
    struct hd_envs unused;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

const struct hd_envs_shape *hd_envs_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_envs hd_envs_at(const struct hd_spec *spec, void *data)
{
    struct hd_envs envs;
    lay_out(spec->shape, data, &envs);
    return envs;
}

void hd_envs_present(const struct hd_envs_shape *shape, const struct hd_envs *envs, float *obs)
{
    const int64_t obs_size = shape->obs_size;
    for (int64_t i = 0; i < shape->envs; i++)
        memcpy(obs + i * obs_size,
               envs->obs + (i * (shape->chunk + 1) + envs->pending[i]) * obs_size,
               (size_t)obs_size * sizeof(float));
}

int hd_envs_start(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                  uint64_t env_seed, char message[HD_ENV_MESSAGE])
{
    if (shape->env->reset(*envs->group, env, env_seed,
                          envs->obs + env * (shape->chunk + 1) * shape->obs_size, message) != 0)
        return HD_ERR_TASK;
    envs->episode_return[env] = 0;
    envs->episode_steps[env] = 0;
    return HD_OK;
}

uint64_t hd_envs_seed(uint64_t seed, int64_t shard, int64_t env, int64_t episode)
{
    struct hd_rng rng = hd_rng_make(seed, hd_hash_text("env reset"), shard, env, episode >> 32);
    return hd_rng_u64(&rng, (uint32_t)episode);
}

/* -- Instances -----------------------------------------------------------------------------------
 */

static int refuse(const struct hd_spec *spec, const char *what, const char *message)
{
    return hd_fail(HD_ERR_TASK, "envs '%s': %s: %s", spec->name, what, message);
}

static int make_group(const struct hd_spec *spec, struct hd_envs *envs)
{
    const struct hd_envs_shape *shape = spec->shape;
    char message[HD_ENV_MESSAGE] = "";
    struct hd_env_spec unused;
    if (*envs->group)
        return HD_OK;
    if (shape->env->create(&shape->settings, &unused, envs->group, message) == 0)
        return HD_OK;
    *envs->group = NULL;
    return refuse(spec, "create", message);
}

static int init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard, void *data)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_envs envs = hd_envs_at(spec, data);
    char message[HD_ENV_MESSAGE] = "";
    HD_TRY(make_group(spec, &envs));
    *envs.best_mean = -INFINITY;
    for (int64_t i = 0; i < shape->envs && !shape->evaluator; i++)
        if (hd_envs_start(shape, &envs, i, hd_envs_seed(setup->seed, shard, i, 0), message))
            return refuse(spec, "reset", message);
    return HD_OK;
}

static void fini(const struct hd_spec *spec, void *data)
{
    struct hd_envs envs = hd_envs_at(spec, data);
    if (*envs.group)
        hd_envs_shape(spec)->env->destroy(*envs.group);
    *envs.group = NULL;
}

/* Everything but the group's pointer, which comes first. */
static char *plain_bytes(const struct hd_spec *spec, const void *data, size_t *bytes_p)
{
    struct hd_envs envs = hd_envs_at(spec, (void *)data);
    *bytes_p = (size_t)((const char *)data + spec->bytes - (char *)envs.best_mean);
    return (char *)envs.best_mean;
}

/* The states of all envs, one after the other; NULL when that fails. */
static char *save_group(const struct hd_spec *spec, const void *data)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_envs envs = hd_envs_at(spec, (void *)data);
    char message[HD_ENV_MESSAGE] = "";
    char *states = hd_alloc(shape->envs, (size_t)shape->state_bytes);
    for (int64_t i = 0; states && i < shape->envs; i++)
        if (shape->env->save(*envs.group, i, states + i * shape->state_bytes, message) != 0) {
            refuse(spec, "save", message);
            hd_free(states);
            return NULL;
        }
    return states;
}

static int load_group(const struct hd_spec *spec, void *data, const char *states)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_envs envs = hd_envs_at(spec, data);
    char message[HD_ENV_MESSAGE] = "";
    HD_TRY(make_group(spec, &envs));
    for (int64_t i = 0; i < shape->envs; i++)
        if (shape->env->load(*envs.group, i, states + i * shape->state_bytes, message) != 0)
            return refuse(spec, "load", message);
    return HD_OK;
}

static int snapshot(const struct hd_spec *spec, void *dst, const void *src)
{
    size_t bytes;
    char *states = save_group(spec, src);
    if (!states)
        return HD_ERR_TASK;
    int status = load_group(spec, dst, states);
    hd_free(states);
    const char *from = plain_bytes(spec, src, &bytes);
    memcpy(plain_bytes(spec, dst, &bytes), from, bytes);
    return status;
}

static int save(const struct hd_spec *spec, const void *data, FILE *file)
{
    size_t bytes, states_bytes;
    const struct hd_envs_shape *shape = spec->shape;
    const char *plain = plain_bytes(spec, data, &bytes);
    char *states = save_group(spec, data);
    if (!states)
        return HD_ERR_TASK;
    states_bytes = (size_t)(shape->envs * shape->state_bytes);
    bool written = fwrite(plain, 1, bytes, file) == bytes &&
                   fwrite(states, 1, states_bytes, file) == states_bytes;
    hd_free(states);
    return written ? HD_OK : hd_fail(HD_ERR_SYSTEM, "value '%s' cannot be saved: %m", spec->name);
}

static int load(const struct hd_spec *spec, void *data, FILE *file)
{
    size_t bytes, states_bytes;
    const struct hd_envs_shape *shape = spec->shape;
    char *plain = plain_bytes(spec, data, &bytes);
    char *states = hd_alloc(shape->envs, (size_t)shape->state_bytes);
    if (!states)
        return HD_ERR_NOMEM;
    states_bytes = (size_t)(shape->envs * shape->state_bytes);
    int status = HD_ERR_FORMAT;
    if (fread(plain, 1, bytes, file) == bytes &&
        fread(states, 1, states_bytes, file) == states_bytes)
        status = load_group(spec, data, states);
    else
        hd_log(HD_LOG_ERROR, "value '%s' cannot be loaded: the file is too short", spec->name);
    hd_free(states);
    return status;
}

static uint64_t hash(const struct hd_spec *spec, const void *data)
{
    size_t bytes;
    const struct hd_envs_shape *shape = spec->shape;
    const char *plain = plain_bytes(spec, data, &bytes);
    char *states = save_group(spec, data);
    uint64_t result = hd_hash_bytes(plain, bytes);
    if (states)
        result =
            hd_hash_mix(result, hd_hash_bytes(states, (size_t)(shape->envs * shape->state_bytes)));
    hd_free(states);
    return result;
}

int hd_envs_check_role(const struct hd_spec *spec, const struct hd_setup *setup, bool evaluator)
{
    if (hd_envs_shape(spec)->evaluator == evaluator)
        return HD_OK;
    return hd_diag_error(setup->diag, setup->mark, "%s needs envs of role %s; '%s' is of role %s",
                         setup->verb, evaluator ? "evaluator" : "collector", spec->name,
                         spec->role);
}

const struct hd_type hd_type_envs = {
    .name = "envs",
    .resolve = resolve,
    .release = release,
    .init = init,
    .fini = fini,
    .snapshot = snapshot,
    .save = save,
    .load = load,
    .hash = hash,
};
