/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/envs.h"

#include "kernels/envs/find/find.h"
#include "kernels/replay/transitions.h"
#include "runtime/base/alloc.h"
#include "runtime/base/crash.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/sequences.h"
#include "tasks/types/collect/envs_model.h"
#include "tasks/types/collect/surplus.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes of a group; memory NULL: only counts. */
static int64_t lay_out(const struct hd_envs_shape *shape, void *memory, struct hd_envs *envs)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs, steps = n * shape->fragment;
    const int64_t games = shape->on_gpu ? shape->env->gpu->get_bytes(n) : 0;
    envs->count = hd_arena_take(&arena, 1, sizeof *envs->count);
    envs->best_mean = hd_arena_take(&arena, 1, sizeof *envs->best_mean);
    envs->best_update = hd_arena_take(&arena, 1, sizeof *envs->best_update);
    envs->seed = hd_arena_take(&arena, n, sizeof *envs->seed);
    envs->episode = hd_arena_take(&arena, n, sizeof *envs->episode);
    envs->episode_return = hd_arena_take(&arena, n, sizeof *envs->episode_return);
    envs->episode_steps = hd_arena_take(&arena, n, sizeof *envs->episode_steps);
    envs->shown = hd_arena_take(&arena, n, sizeof *envs->shown);
    envs->pending = hd_arena_take(&arena, n, sizeof *envs->pending);
    envs->action = hd_arena_take(&arena, steps * shape->frame.actions.dims, sizeof *envs->action);
    envs->reward = hd_arena_take(&arena, steps, sizeof *envs->reward);
    const size_t sample_bytes =
        (size_t)hd_transition_get_bytes(shape->nstep, shape->frame.actions.dims);
    envs->n_surplus = hd_arena_take(&arena, shape->surplus > 0, sizeof *envs->n_surplus);
    envs->surplus = hd_arena_take(&arena, shape->surplus, sample_bytes);
    const int64_t followed = shape->follows_returns;
    envs->discounted = hd_arena_take(&arena, followed * n, sizeof *envs->discounted);
    envs->returns = hd_arena_take(&arena, followed, sizeof *envs->returns);
    envs->obs = hd_arena_take(&arena, n, (size_t)shape->obs.obs_bytes);
    envs->state = hd_arena_take(&arena, n * shape->state, sizeof *envs->state);
    envs->games = hd_arena_take(&arena, games, 1);
    envs->group = hd_arena_take(&arena, 1, sizeof *envs->group);
    return arena.used;
}

static int64_t group_bytes(const struct hd_envs_shape *shape)
{
    struct hd_envs unused;
    return lay_out(shape, NULL, &unused);
}

/* -- The environment of the run file ----------------------------------------------------------- */

void hd_envs_init_games(const struct hd_envs_shape *shape, int64_t envs, void *games)
{
    struct hd_env_settings settings = shape->settings;
    settings.envs = envs;
    shape->env->gpu->init(&settings, games);
}

/* An evaluator's envs are counted over all shards, and each is a group, of all agents of a parallel
 * env; a collector's are counted in each shard. */
static void count_envs(struct hd_envs_shape *shape, const struct hd_spec *spec,
                       const struct hd_setup *setup)
{
    shape->total = hd_config_get_int(setup->config, shape->evaluator ? "env.evaluator_env_num"
                                                                     : "env.collector_env_num");
    shape->instances = shape->evaluator && spec->placement == HD_SHARD ? setup->shards : 1;
    const int64_t most = (shape->total + shape->instances - 1) / shape->instances;
    shape->groups =
        shape->evaluator ? most : hd_config_get_int(setup->config, "policy.collect.env_groups");
    shape->envs = shape->evaluator ? hd_env_count_agents(&shape->frame) : most / shape->groups;
    shape->fragment = shape->evaluator ? 0 : hd_fragment_read(setup->config);
}

/* The samples of all fragments may become complete in one step, when n_sample - 1 are made. */
static void count_surplus(struct hd_envs_shape *shape, const struct hd_setup *setup)
{
    if (!shape->evaluator && !hd_policy_get(setup->config)->on_policy &&
        hd_surplus_read(setup->config, true) == HD_SURPLUS_KEEP) {
        shape->nstep = hd_config_get_int(setup->config, "policy.nstep");
        shape->surplus = hd_config_get_int(setup->config, "policy.collect.n_sample") - 1 +
                         shape->envs * shape->fragment;
    }
}

/* A collector's groups are equal, and each has all agents of a parallel env. */
static int check_groups(const struct hd_envs_shape *shape, const struct hd_spec *spec,
                        const struct hd_setup *setup)
{
    const int64_t agents = hd_env_count_agents(&shape->frame), unit = agents * shape->groups;
    const char *key = agents > 1 ? "env.collector_env_num" : "policy.collect.env_groups";
    const struct hd_source_location location = hd_config_locate(setup->config, key, spec->location);
    if (shape->evaluator || shape->total % unit == 0)
        return HD_OK;
    if (agents > 1)
        return hd_diag_add_error(
            setup->diag, location,
            "%s: each of the %lld agents of a parallel environment counts as one: expected a "
            "multiple of %lld (agents times policy.collect.env_groups), found %lld",
            key, (long long)agents, (long long)unit, (long long)shape->total);
    return hd_diag_add_error(setup->diag, location,
                             "%s: expected a divisor of env.collector_env_num %lld, found %lld",
                             key, (long long)shape->total, (long long)unit);
}

static int fill_shape(struct hd_envs_shape *shape, const struct hd_spec *spec,
                      const struct hd_setup *setup)
{
    shape->evaluator = strcmp(spec->role, "evaluator") == 0;
    shape->obs = hd_obs_shape_read(setup->config);
    shape->outputs = hd_policy_get(setup->config)->outputs;
    shape->state = hd_sequences_read(setup->config).state;
    shape->follows_returns =
        !shape->evaluator && hd_config_get_bool(setup->config, "policy.collect.normalize_reward");
    shape->settings = (struct hd_env_settings){.evaluator = shape->evaluator};
    HD_TRY(hd_env_options_read(setup->config, &shape->settings));
    HD_TRY(hd_env_probe(setup->config, &shape->settings, spec->location, setup->diag, &shape->env,
                        &shape->frame, &shape->state_bytes));
    hd_env_describe(shape->env, shape->about);
    count_envs(shape, spec, setup);
    count_surplus(shape, setup);
    HD_TRY(check_groups(shape, spec, setup));
    shape->on_gpu = shape->env->gpu && !shape->evaluator && shape->groups == 1;
    return hd_envs_check_model(&(const struct hd_envs_model){.env = shape->env,
                                                             .frame = &shape->frame,
                                                             .obs = &shape->obs,
                                                             .outputs = shape->outputs},
                               spec, setup);
}

static void release_shape(struct hd_envs_shape *shape)
{
    if (shape)
        hd_env_options_release(&shape->settings);
    hd_free(shape);
}

static void envs_release(struct hd_spec *spec)
{
    release_shape(spec->shape);
}

static int envs_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const char *role = spec->role ? spec->role : "";
    if (strcmp(role, "evaluator") != 0 && strcmp(role, "collector") != 0)
        return hd_diag_add_error(setup->diag, spec->location,
                                 "envs '%s' needs role: collector or role: evaluator", spec->name);
    struct hd_envs_shape *shape = hd_alloc(1, sizeof *shape);
    int status = shape ? fill_shape(shape, spec, setup) : HD_ERR_NOMEM;
    if (status != HD_OK) {
        release_shape(shape);
        return status;
    }
    spec->shape = shape;
    spec->partials = shape->groups;
    spec->bytes = shape->groups * group_bytes(shape);
    return HD_OK;
}

const struct hd_envs_shape *hd_envs_get_shape(const struct hd_spec *spec)
{
    return spec->shape;
}

struct hd_envs hd_envs_get(const struct hd_spec *spec, void *data, int64_t group)
{
    struct hd_envs envs;
    lay_out(spec->shape, (char *)data + group * group_bytes(spec->shape), &envs);
    return envs;
}

int64_t hd_envs_get_first(const struct hd_envs_shape *shape, int64_t shard, int64_t group)
{
    const int64_t before = shape->instances == 1 ? 0 : shard * shape->total / shape->instances;
    return (before + group) * shape->envs;
}

int hd_envs_start(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                  uint64_t env_seed, void *frame, char message[HD_ENV_MESSAGE])
{
    envs->seed[env] = env_seed;
    envs->episode_return[env] = 0;
    envs->episode_steps[env] = 0;
    hd_crash_set_part(shape->about);
    const int failed = shape->env->reset(*envs->group, env, env_seed, frame, message);
    hd_crash_set_part(NULL);
    if (failed != 0)
        return HD_ERR_TASK;
    if (!hd_envs_is_frame_finite(shape, frame)) {
        snprintf(message, HD_ENV_MESSAGE, "its observation holds a number that is not finite");
        return HD_ERR_TASK;
    }
    envs->shown[env]++;
    memset(envs->state + env * shape->state, 0, (size_t)shape->state * sizeof *envs->state);
    for (int64_t i = 0; i < shape->obs.stack; i++)
        memcpy(envs->obs + env * shape->obs.obs_bytes + i * shape->obs.frame_bytes, frame,
               (size_t)shape->obs.frame_bytes);
    return HD_OK;
}

bool hd_envs_is_frame_finite(const struct hd_envs_shape *shape, const void *frame)
{
    enum { EXPONENT = 0x7f800000 }; /* all bits of it are set in infinities and NaNs */
    const int64_t n = shape->obs.frame_bytes / (int64_t)sizeof(uint32_t);
    uint32_t found = 0, bits;
    for (int64_t i = 0; shape->frame.element == HD_ENV_F32 && i < n; i++) {
        memcpy(&bits, (const char *)frame + i * (int64_t)sizeof bits, sizeof bits);
        found |= (bits & EXPONENT) == EXPONENT;
    }
    return !found;
}

void hd_envs_push_frame(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                        const void *frame)
{
    const int64_t one = shape->obs.frame_bytes, older = shape->obs.obs_bytes - one;
    char *obs = envs->obs + env * shape->obs.obs_bytes;
    memmove(obs, obs + one, (size_t)older);
    memcpy(obs + older, frame, (size_t)one);
    envs->shown[env]++;
}

/* -- Instances --------------------------------------------------------------------------------- */

static int refuse(const struct hd_spec *spec, const char *what, const char *message)
{
    return hd_fail(HD_ERR_TASK, "envs '%s': %s: %s", spec->name, what, message);
}

/* Creates the envs of a group, whose count is set. */
static int make_group(const struct hd_spec *spec, struct hd_envs *envs)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_env_settings settings = shape->settings;
    struct hd_env_spec unused;
    char message[HD_ENV_MESSAGE] = "";
    settings.envs = *envs->count;
    settings.groups = shape->evaluator ? shape->groups : 1;
    if (*envs->group || settings.envs == 0)
        return HD_OK;
    if (shape->on_gpu)
        hd_envs_init_games(shape, shape->envs, envs->games);
    if (shape->env->create(&settings, &unused, envs->group, message) == 0)
        return HD_OK;
    *envs->group = NULL;
    return refuse(spec, "create", message);
}

static int init_partial(const struct hd_spec *spec, int64_t shard, void *data, int64_t group)
{
    const struct hd_envs_shape *shape = spec->shape;
    struct hd_envs envs = hd_envs_get(spec, data, group);
    *envs.count = shape->envs;
    if (shape->instances > 1 &&
        hd_envs_get_first(shape, shard, group) >= hd_envs_get_first(shape, shard + 1, 0))
        *envs.count = 0;
    *envs.best_mean = -INFINITY;
    return make_group(spec, &envs);
}

static int envs_identify(const struct hd_spec *spec, char text[HD_IDENTITY_TEXT])
{
    const struct hd_envs_shape *shape = spec->shape;
    char message[HD_ENV_MESSAGE] = "";
    uint64_t hash;
    text[0] = '\0';
    if (!hd_env_hash_code(shape->env, &hash))
        return HD_OK;
    if (shape->env->identify && shape->env->identify(&shape->settings, message) != 0)
        return hd_fail(HD_ERR_TASK, "envs '%s': %s", spec->name, message);
    snprintf(text, HD_IDENTITY_TEXT, "plug-in %.32s %016" PRIx64 "%s%.90s", shape->env->name, hash,
             message[0] ? ", " : "", message);
    return HD_OK;
}

static int envs_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                     void *data)
{
    (void)setup;
    for (int64_t group = 0; group < spec->partials; group++)
        HD_TRY(init_partial(spec, shard, data, group));
    return HD_OK;
}

static void fini(const struct hd_spec *spec, void *data)
{
    for (int64_t group = 0; group < spec->partials; group++) {
        struct hd_envs envs = hd_envs_get(spec, data, group);
        if (*envs.group)
            hd_envs_get_shape(spec)->env->destroy(*envs.group);
        *envs.group = NULL;
    }
}

/* Returns the arrays of a group, which end before what its envs are themselves. */
static char *flat_bytes(const struct hd_envs *envs, size_t *bytes_p)
{
    *bytes_p = (size_t)((const char *)envs->games - (const char *)envs->count);
    return (char *)envs->count;
}

/* Returns the states of a group's envs, one after another, freed by hd_free; NULL on failure
 * (logged). */
static char *save_group(const struct hd_spec *spec, const struct hd_envs *envs, size_t *bytes_p)
{
    const struct hd_envs_shape *shape = spec->shape;
    char message[HD_ENV_MESSAGE] = "";
    char *states = hd_alloc(*envs->count, (size_t)shape->state_bytes);
    for (int64_t i = 0; states && i < *envs->count; i++)
        if (shape->env->save(*envs->group, i, states + i * shape->state_bytes, message) != 0) {
            refuse(spec, "save", message);
            hd_free(states);
            return NULL;
        }
    *bytes_p = (size_t)(*envs->count * shape->state_bytes);
    return states;
}

static int load_group(const struct hd_spec *spec, struct hd_envs *envs, const char *states)
{
    const struct hd_envs_shape *shape = spec->shape;
    char message[HD_ENV_MESSAGE] = "";
    HD_TRY(make_group(spec, envs));
    for (int64_t i = 0; i < *envs->count; i++) {
        const char *state = states + i * shape->state_bytes;
        if (shape->env->load(*envs->group, i, state, message) != 0)
            return hd_fail(HD_ERR_FORMAT, "envs '%s': load: %s", spec->name, message);
        if (shape->on_gpu)
            memcpy(shape->env->gpu->get_state(envs->games, i), state, (size_t)shape->state_bytes);
    }
    return HD_OK;
}

static int snapshot_partial(const struct hd_spec *spec, struct hd_envs *dst,
                            const struct hd_envs *src)
{
    size_t bytes;
    char *states = save_group(spec, src, &bytes);
    if (!states)
        return HD_ERR_TASK;
    const char *from = flat_bytes(src, &bytes);
    memcpy(flat_bytes(dst, &bytes), from, bytes);
    int status = load_group(spec, dst, states);
    hd_free(states);
    return status;
}

static int snapshot(const struct hd_spec *spec, void *dst, const void *src)
{
    for (int64_t group = 0; group < spec->partials; group++) {
        struct hd_envs to = hd_envs_get(spec, dst, group),
                       from = hd_envs_get(spec, (void *)src, group);
        HD_TRY(snapshot_partial(spec, &to, &from));
    }
    return HD_OK;
}

static int save_partial(const struct hd_spec *spec, const struct hd_envs *envs, FILE *file)
{
    size_t bytes, states_bytes;
    const char *flat = flat_bytes(envs, &bytes);
    char *states = save_group(spec, envs, &states_bytes);
    if (!states)
        return HD_ERR_TASK;
    int status = hd_value_write(spec, flat, bytes, file);
    if (status == HD_OK)
        status = hd_value_write(spec, states, states_bytes, file);
    hd_free(states);
    return status;
}

static int envs_save(const struct hd_spec *spec, const void *data, FILE *file)
{
    for (int64_t group = 0; group < spec->partials; group++) {
        struct hd_envs envs = hd_envs_get(spec, (void *)data, group);
        HD_TRY(save_partial(spec, &envs, file));
    }
    return HD_OK;
}

static int load_states(const struct hd_spec *spec, struct hd_envs *envs, FILE *file)
{
    const int64_t state_bytes = hd_envs_get_shape(spec)->state_bytes;
    char *states = hd_alloc(*envs->count, (size_t)state_bytes);
    if (!states)
        return HD_ERR_NOMEM;
    int status = hd_value_read(spec, states, (size_t)(*envs->count * state_bytes), file);
    if (status == HD_OK)
        status = load_group(spec, envs, states);
    hd_free(states);
    return status;
}

static int load_partial(const struct hd_spec *spec, struct hd_envs *envs, FILE *file)
{
    size_t bytes;
    const int64_t count = *envs->count;
    char *flat = flat_bytes(envs, &bytes);
    HD_TRY(hd_value_read(spec, flat, bytes, file));
    const int64_t found = *envs->count;
    if (found >= 0 && found <= hd_envs_get_shape(spec)->envs && (found == count || !*envs->group))
        return load_states(spec, envs, file);
    *envs->count = count;
    return hd_fail(HD_ERR_FORMAT, "value '%s' cannot be loaded: the file has %lld envs", spec->name,
                   (long long)found);
}

/* Loads into an instance of the same shard or into one that was never initialised. */
static int envs_load(const struct hd_spec *spec, void *data, FILE *file)
{
    for (int64_t group = 0; group < spec->partials; group++) {
        struct hd_envs envs = hd_envs_get(spec, data, group);
        HD_TRY(load_partial(spec, &envs, file));
    }
    return HD_OK;
}

/* A fragment's steps belong to the present episode, and each showed a frame after its first. */
static int check_env(const struct hd_envs_shape *shape, const struct hd_envs *envs, int64_t i,
                     char message[HD_NUMBERS_MESSAGE])
{
    const int64_t pending_max = shape->fragment > 0 ? shape->fragment - 1 : 0;
    HD_TRY(hd_number_check(message, "episode", i, envs->episode[i], 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "shown", i, envs->shown[i], 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "episode_steps", i, envs->episode_steps[i], 0,
                           envs->shown[i] > 0 ? envs->shown[i] - 1 : 0));
    HD_TRY(hd_number_check(message, "pending", i, envs->pending[i], 0,
                           envs->episode_steps[i] < pending_max ? envs->episode_steps[i]
                                                                : pending_max));
    return hd_numbers_check_f64(message, "episode_return", &envs->episode_return[i], 1, -INFINITY);
}

static int check_surplus(const struct hd_envs_shape *shape, const struct hd_envs *envs,
                         char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_env_actions *actions = &shape->frame.actions;
    if (shape->surplus == 0)
        return HD_OK;
    HD_TRY(hd_number_check(message, "n_surplus", -1, *envs->n_surplus, 0, shape->surplus));
    for (int64_t i = 0; i < shape->surplus; i++)
        HD_TRY(hd_transition_check(hd_transition_get(envs->surplus, shape->nstep, actions->dims, i),
                                   i, shape->nstep, shape->obs.stack, shape->envs, actions,
                                   message));
    return HD_OK;
}

static int check_partial(const struct hd_envs_shape *shape, const struct hd_envs *envs,
                         char message[HD_NUMBERS_MESSAGE])
{
    const int64_t steps = shape->envs * shape->fragment;
    HD_TRY(hd_number_check(message, "best_update", -1, *envs->best_update, 0, HD_COUNT_MAX));
    if (isnan(*envs->best_mean))
        return hd_numbers_check_f64(message, "best_mean", envs->best_mean, 1, -INFINITY);
    for (int64_t i = 0; i < shape->envs; i++)
        HD_TRY(check_env(shape, envs, i, message));
    HD_TRY(check_surplus(shape, envs, message));
    HD_TRY(hd_actions_check(&shape->frame.actions, envs->action, steps, message));
    HD_TRY(
        hd_numbers_check_f32(message, "state", envs->state, shape->envs * shape->state, -INFINITY));
    return hd_numbers_check_f32(message, "reward", envs->reward, steps, -INFINITY);
}

/* The states of the envs themselves were checked by the env's `load`. */
static int envs_check(const struct hd_spec *spec, const void *data,
                      char message[HD_NUMBERS_MESSAGE])
{
    for (int64_t group = 0; group < spec->partials; group++) {
        const struct hd_envs envs = hd_envs_get(spec, (void *)data, group);
        HD_TRY(check_partial(spec->shape, &envs, message));
    }
    return HD_OK;
}

static uint64_t envs_hash(const struct hd_spec *spec, const void *data)
{
    uint64_t result = 0;
    for (int64_t group = 0; group < spec->partials; group++) {
        const struct hd_envs envs = hd_envs_get(spec, (void *)data, group);
        size_t bytes, states_bytes;
        const char *flat = flat_bytes(&envs, &bytes);
        char *states = save_group(spec, &envs, &states_bytes);
        result = hd_hash_mix(result, hd_hash_bytes(flat, bytes));
        if (states)
            result = hd_hash_mix(result, hd_hash_bytes(states, states_bytes));
        hd_free(states);
    }
    return result;
}

int hd_envs_check_role(const struct hd_spec *spec, const struct hd_setup *setup, bool evaluator)
{
    if (hd_envs_get_shape(spec)->evaluator == evaluator)
        return HD_OK;
    return hd_diag_add_error(setup->diag, setup->location,
                             "%s needs envs of role %s; '%s' is of role %s", setup->verb,
                             evaluator ? "evaluator" : "collector", spec->name, spec->role);
}

#if HD_CUDA
/* -- On a GPU ---------------------------------------------------------------------------------- */
/* Tasks on GPUs use only instances of shape->on_gpu, of one group, whose games lie before the
 * pointer to their envs. The games are as new as the envs when the value comes from a file or from
 * a GPU, and nobody steps the envs on the host in a run whose GPUs do. */

static int64_t get_device_bytes(const struct hd_spec *spec)
{
    return group_bytes(spec->shape) - hd_align_up((int64_t)sizeof(void *));
}

static int need_nothing(const struct hd_spec *spec)
{
    (void)spec;
    return HD_OK;
}

static int renew_envs(const struct hd_spec *spec, void *data)
{
    const struct hd_envs_shape *shape = spec->shape;
    const struct hd_envs envs = hd_envs_get(spec, data, 0);
    char message[HD_ENV_MESSAGE];
    for (int64_t i = 0; i < *envs.count; i++)
        if (shape->env->load(*envs.group, i, shape->env->gpu->get_state(envs.games, i), message) !=
            0)
            return refuse(spec, "load", message);
    return HD_OK;
}

static const struct hd_device_form device_form = {
    .common = get_device_bytes,
    .bytes = get_device_bytes,
    .ready = need_nothing,
    .renew_on_host = renew_envs,
};
#endif

struct hd_env_gpu_envs hd_envs_get_on_gpu(const struct hd_spec *spec, void *data, uint64_t seed,
                                          int64_t shard)
{
    const struct hd_envs_shape *shape = spec->shape;
    const struct hd_envs envs = hd_envs_get(spec, data, 0);
    return (struct hd_env_gpu_envs){
        .envs = shape->envs,
        .stack = shape->obs.stack,
        .seed = seed,
        .shard = shard,
        .group = envs.games,
        .episode_seed = envs.seed,
        .episode = envs.episode,
        .episode_return = envs.episode_return,
        .episode_steps = envs.episode_steps,
        .shown = envs.shown,
        .obs = (uint8_t *)envs.obs,
    };
}

const struct hd_type hd_type_envs = {
    .name = "envs",
    .used_by_updates = true,
    .size_key = "env.collector_env_num",
    .resolve = envs_resolve,
    .release = envs_release,
    .init = envs_init,
    .fini = fini,
    .snapshot = snapshot,
    .save = envs_save,
    .load = envs_load,
    .check = envs_check,
    .hash = envs_hash,
    .identify = envs_identify,
    .device = HD_ON_GPU(device_form),
};
