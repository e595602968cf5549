/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/envs.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
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
    envs->group = hd_arena_take(&arena, shape->env->bytes(n), 1);
    envs->best_mean = hd_arena_take(&arena, 1, sizeof *envs->best_mean);
    envs->episode = hd_arena_take(&arena, n, sizeof *envs->episode);
    envs->episode_return = hd_arena_take(&arena, n, sizeof *envs->episode_return);
    envs->episode_steps = hd_arena_take(&arena, n, sizeof *envs->episode_steps);
    envs->pending = hd_arena_take(&arena, n, sizeof *envs->pending);
    envs->obs = hd_arena_take(&arena, (steps + n) * shape->env->obs_size, sizeof *envs->obs);
    envs->action = hd_arena_take(&arena, steps, sizeof *envs->action);
    envs->reward = hd_arena_take(&arena, steps, sizeof *envs->reward);
    return arena.used;
}

/* The model must fit the env. */
static int check_model(const struct hd_spec *spec, const struct hd_setup *setup,
                       const struct hd_env *env)
{
    int status = HD_OK;
    int64_t obs_size = hd_transition_shape_of(setup->config, 0).obs_size;
    int64_t actions = hd_config_int(setup->config, "policy.model.action_shape");
    if (obs_size != env->obs_size)
        status = hd_diag_error(setup->diag, spec->mark,
                               "env.type %s shows %lld numbers, but policy.model.obs_shape is %lld",
                               env->name, (long long)env->obs_size, (long long)obs_size);
    if (actions != env->actions)
        status = hd_diag_error(setup->diag, spec->mark,
                               "env.type %s has %lld actions, but policy.model.action_shape is "
                               "%lld",
                               env->name, (long long)env->actions, (long long)actions);
    return status;
}

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const char *role = spec->role ? spec->role : "";
    bool evaluator = strcmp(role, "evaluator") == 0;
    if (!evaluator && strcmp(role, "collector") != 0)
        return hd_diag_error(setup->diag, spec->mark,
                             "envs '%s' needs role: collector or role: evaluator", spec->name);
    const struct hd_env *env = hd_env_find(hd_config_text(setup->config, "env.type"));
    HD_TRY(check_model(spec, setup, env));
    struct hd_envs_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->env = env;
    shape->evaluator = evaluator;
    shape->envs =
        hd_config_int(setup->config, evaluator ? "env.evaluator_env_num" : "env.collector_env_num");
    int64_t n_sample = hd_config_int(setup->config, "policy.collect.n_sample");
    shape->chunk = evaluator ? 0 : (n_sample + shape->envs - 1) / shape->envs;
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
    const int64_t obs_size = shape->env->obs_size;
    for (int64_t i = 0; i < shape->envs; i++)
        memcpy(obs + i * obs_size,
               envs->obs + (i * (shape->chunk + 1) + envs->pending[i]) * obs_size,
               (size_t)obs_size * sizeof(float));
}

void hd_envs_start(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                   uint64_t env_seed)
{
    shape->env->reset(envs->group, env, env_seed,
                      envs->obs + env * (shape->chunk + 1) * shape->env->obs_size);
    envs->episode_return[env] = 0;
    envs->episode_steps[env] = 0;
}

uint64_t hd_envs_seed(uint64_t seed, int64_t shard, int64_t env, int64_t episode)
{
    struct hd_rng rng = hd_rng_make(seed, hd_hash_text("env reset"), shard, env, episode >> 32);
    return hd_rng_u64(&rng, (uint32_t)episode);
}

static int init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard, void *data)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_envs envs = hd_envs_at(spec, data);
    shape->env->init(envs.group, shape->envs);
    *envs.best_mean = -INFINITY;
    for (int64_t i = 0; i < shape->envs && !shape->evaluator; i++)
        hd_envs_start(shape, &envs, i, hd_envs_seed(setup->seed, shard, i, 0));
    return HD_OK;
}

int hd_envs_check_role(const struct hd_spec *spec, const struct hd_setup *setup, bool evaluator)
{
    if (hd_envs_shape(spec)->evaluator == evaluator)
        return HD_OK;
    return hd_diag_error(setup->diag, setup->mark, "%s needs envs of role %s; '%s' is of role %s",
                         setup->verb, evaluator ? "evaluator" : "collector", spec->name,
                         spec->role);
}

const struct hd_type hd_type_envs = {.name = "envs", .resolve = resolve, .init = init};
