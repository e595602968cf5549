/* SPDX-License-Identifier: Apache-2.0 */
/* Environments side by side. Each is a group of its own, so that one may be reset while the others
 * are stepped. */
#include "infer/call_internal.h"
#include "infer/envs_internal.h"
#include "infer/policy_internal.h"
#include "infer/spaces_internal.h"
#include "kernels/envs/find/find.h"
#include "kernels/envs/seed.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/policy_file.h"

#include <inttypes.h>
#include <string.h>

/* -- Creation ---------------------------------------------------------------------------------- */

static int find_env(const struct heddle_envs_settings *settings, const struct hd_env **env_p)
{
    char message[HD_ENV_MESSAGE] = "", known[256];
    const struct hd_env *builtin = settings->type ? hd_env_find_builtin(settings->type) : NULL;
    hd_env_list_builtin(known, sizeof known);
    if (!settings->type)
        return hd_fail(HD_ERR_INPUT, "environments need a type (%s)", known);
    if (!builtin && !settings->allow_plugins)
        return hd_fail(HD_ERR_INPUT,
                       "no environment '%.60s' is built in (%s); plug-ins, whose code would be "
                       "loaded, have to be allowed (allow_plugins)",
                       settings->type, known);
    *env_p = builtin;
    if (!builtin && hd_env_find(settings->type, env_p, message) != HD_OK)
        return hd_fail(HD_ERR_INPUT, "%s", message);
    return HD_OK;
}

static int check_counts(const struct heddle_envs_settings *settings)
{
    enum { ENVS_MAX = 1 << 20, STACK_MAX = 64 };
    if (settings->envs < 1 || settings->envs > ENVS_MAX)
        return hd_fail(HD_ERR_INPUT, "expected 1 to %d environments, found %" PRId64, ENVS_MAX,
                       settings->envs);
    if (settings->frame_stack < 0 || settings->frame_stack > STACK_MAX)
        return hd_fail(HD_ERR_INPUT, "expected observations of 1 to %d frames, found %" PRId64,
                       STACK_MAX, settings->frame_stack);
    return HD_OK;
}

static int make_group(struct heddle_envs *envs, const struct hd_env_settings *settings, int64_t i)
{
    char message[HD_ENV_MESSAGE] = "";
    if (envs->env->create(settings, &envs->frame, &envs->ones[i].group, message) == 0)
        return HD_OK;
    envs->ones[i].group = NULL;
    return hd_fail(HD_ERR_INPUT, "environment %s: %s", envs->env->name, message);
}

static int make_groups(struct heddle_envs *envs, const struct heddle_envs_settings *settings,
                       bool parts)
{
    const int n = settings->n_options;
    struct hd_env_option *options = hd_alloc(n, sizeof *options);
    if (!options)
        return HD_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        options[i] = (struct hd_env_option){settings->options[i].name, settings->options[i].value};
    const struct hd_env_settings one = {.envs = 1,
                                        .evaluator = !settings->training,
                                        .env_id = settings->env_id ? settings->env_id : "",
                                        .options = options,
                                        .n_options = n,
                                        .parts = parts};
    int status = HD_OK;
    for (int64_t i = 0; status == HD_OK && i < settings->envs; i++)
        status = make_group(envs, &one, i);
    hd_free(options);
    return status;
}

static bool shows_pictures(const struct hd_env_spec *frame)
{
    return frame->dims == 2 && frame->element == HD_ENV_U8;
}

static void describe(struct heddle_envs *envs, int64_t n, int64_t stack)
{
    const struct hd_env_spec *frame = &envs->frame;
    struct heddle_envs_spec *spec = &envs->spec;
    const bool drawn = envs->env->render != NULL, pictures = shows_pictures(frame);
    *spec = (struct heddle_envs_spec){.envs = n,
                                      .actions = hd_actions_publish(&frame->actions),
                                      .render_height = drawn      ? frame->render_height
                                                       : pictures ? frame->shape[0]
                                                                  : 0,
                                      .render_width = drawn      ? frame->render_width
                                                      : pictures ? frame->shape[1]
                                                                 : 0};
    const struct hd_obs_shape obs = hd_obs_shape_make(frame, stack);
    spec->obs = hd_obs_publish(&obs);
    envs->parts = hd_obs_publish_parts(&obs);
    envs->frame_bytes = hd_env_get_frame_bytes(frame);
    envs->obs_bytes = stack * envs->frame_bytes;
}

static int fill(struct heddle_envs *envs, const struct heddle_envs_settings *settings, bool parts)
{
    HD_TRY(check_counts(settings));
    HD_TRY(find_env(settings, &envs->env));
    envs->ones = hd_alloc(settings->envs, sizeof *envs->ones);
    if (!envs->ones)
        return HD_ERR_NOMEM;
    envs->spec.envs = settings->envs;
    HD_TRY(make_groups(envs, settings, parts));
    if (envs->frame.agents > 1)
        return hd_fail(HD_ERR_INPUT,
                       "environment %s: %" PRId64 " agents play together, which only `runner` can "
                       "have",
                       envs->env->name, envs->frame.agents);
    describe(envs, settings->envs, settings->frame_stack > 0 ? settings->frame_stack : 1);
    envs->obs = hd_alloc(settings->envs, (size_t)envs->obs_bytes);
    envs->shown = hd_alloc(1, (size_t)envs->frame_bytes);
    envs->action = hd_alloc(settings->envs * envs->frame.actions.dims, sizeof *envs->action);
    return envs->obs && envs->shown && envs->action ? HD_OK : HD_ERR_NOMEM;
}

static int create(const struct heddle_envs_settings *settings, bool parts,
                  struct heddle_envs **envs_p)
{
    struct heddle_envs *envs = hd_alloc(1, sizeof *envs);
    int status = envs ? fill(envs, settings, parts) : HD_ERR_NOMEM;
    if (status == HD_OK)
        *envs_p = envs;
    else
        heddle_envs_destroy(envs);
    return status;
}

int heddle_envs_create(const struct heddle_envs_settings *settings, struct heddle_envs **envs_p,
                       char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, create(settings, false, envs_p));
}

static int create_for_policy(const struct heddle_policy *policy, int64_t envs, bool training,
                             bool allow_plugins, struct heddle_envs **envs_p)
{
    struct hd_env_settings read = {.evaluator = !training};
    if (policy->is_file && hd_env_is_plugin(policy->config))
        return hd_fail(
            HD_ERR_INPUT,
            "the policy is of a file of weights, because of which no code of env.type %s "
            "is loaded: load it with its run directory or run file",
            hd_config_get_text(policy->config, "env.type"));
    int status = hd_env_options_read(policy->config, &read);
    struct heddle_option *options = hd_alloc(read.n_options, sizeof *options);
    for (int i = 0; options && i < read.n_options; i++)
        options[i] = (struct heddle_option){read.options[i].name, read.options[i].value};
    const struct heddle_envs_settings settings = {
        .type = hd_config_get_text(policy->config, "env.type"),
        .env_id = read.env_id,
        .options = options,
        .n_options = read.n_options,
        .envs = envs,
        .frame_stack = hd_config_get_int(policy->config, "env.frame_stack"),
        .training = training,
        .allow_plugins = allow_plugins};
    if (status == HD_OK)
        status = options ? create(&settings, read.parts, envs_p) : HD_ERR_NOMEM;
    hd_free(options);
    hd_env_options_release(&read);
    return status;
}

int hd_policy_find_bounds(const struct hd_setup *setup, struct heddle_policy *policy)
{
    struct hd_env_actions *actions = &policy->actions;
    struct heddle_envs *envs = NULL;
    bool stated;
    HD_TRY(hd_actions_read_bounds(setup, actions, &stated));
    if (stated)
        return HD_OK;
    if (hd_env_is_plugin(policy->config))
        return hd_diag_add_error(setup->diag, setup->location,
                                 "policy.action_bounds: the bounds of the actions are not here; a "
                                 "run writes them into its total_config.yaml");
    HD_TRY(create_for_policy(policy, 1, false, false, &envs));
    if (hd_actions_are_equal(actions, &envs->frame.actions))
        *actions = envs->frame.actions;
    heddle_envs_destroy(envs);
    return HD_OK;
}

int heddle_policy_create_envs(const struct heddle_policy *policy, int64_t envs, bool training,
                              bool allow_plugins, struct heddle_envs **envs_p, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, create_for_policy(policy, envs, training, allow_plugins, envs_p));
}

void heddle_envs_destroy(struct heddle_envs *envs)
{
    if (!envs)
        return;
    for (int64_t i = 0; envs->ones && i < envs->spec.envs; i++)
        if (envs->ones[i].group)
            envs->env->destroy(envs->ones[i].group);
    hd_free(envs->ones);
    hd_free(envs->obs);
    hd_free(envs->shown);
    hd_free(envs->action);
    hd_free(envs);
}

void heddle_envs_describe(const struct heddle_envs *envs, struct heddle_envs_spec *spec_p)
{
    *spec_p = envs->spec;
}

void heddle_envs_describe_parts(const struct heddle_envs *envs, struct heddle_obs_parts *parts_p)
{
    *parts_p = envs->parts;
}

const char *heddle_envs_get_builtin_type(const struct heddle_envs *envs)
{
    return hd_env_find_builtin(envs->env->name) == envs->env ? envs->env->name : NULL;
}

/* -- Episodes ---------------------------------------------------------------------------------- */

/* An environment that failed has to be reset. */
static int refuse(struct heddle_envs *envs, int64_t i, const char *what, const char *message)
{
    envs->ones[i].started = false;
    return hd_fail(HD_ERR_TASK, "environment %s, number %" PRId64 ", %s: %s", envs->env->name, i,
                   what, message);
}

/* Starts the present episode of an environment. */
static int start(struct heddle_envs *envs, int64_t i)
{
    struct hd_one_env *one = &envs->ones[i];
    char message[HD_ENV_MESSAGE] = "", *obs = envs->obs + i * envs->obs_bytes;
    const uint64_t seed =
        one->episode == 0 ? one->seed : hd_env_get_seed(one->seed, 0, 0, one->episode);
    if (envs->env->reset(one->group, 0, seed, envs->shown, message) != 0)
        return refuse(envs, i, "reset", message);
    for (int64_t at = 0; at < envs->obs_bytes; at += envs->frame_bytes)
        memcpy(obs + at, envs->shown, (size_t)envs->frame_bytes);
    one->started = true;
    one->ended = false;
    one->steps = 0;
    return HD_OK;
}

static void push_frame(struct heddle_envs *envs, int64_t i)
{
    char *obs = envs->obs + i * envs->obs_bytes;
    const int64_t older = envs->obs_bytes - envs->frame_bytes;
    memmove(obs, obs + envs->frame_bytes, (size_t)older);
    memcpy(obs + older, envs->shown, (size_t)envs->frame_bytes);
}

static int reset_one(struct heddle_envs *envs, int64_t i, const uint64_t *seed)
{
    struct hd_one_env *one = &envs->ones[i];
    if (!seed && !one->seeded)
        return hd_fail(HD_ERR_INPUT, "environment %" PRId64 " needs a seed for its first reset", i);
    one->episode = seed ? 0 : one->episode + 1;
    if (seed)
        one->seed = seed[i];
    one->seeded = true;
    return start(envs, i);
}

static int limit_steps(struct heddle_envs *envs, int64_t steps)
{
    if (steps < 0)
        return hd_fail(HD_ERR_INPUT, "expected a limit of 1 step or more, found %" PRId64, steps);
    envs->max_steps = steps;
    return HD_OK;
}

int heddle_envs_limit_steps(struct heddle_envs *envs, int64_t steps, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, limit_steps(envs, steps));
}

static int reset(struct heddle_envs *envs, const bool *mask, const uint64_t *seed, void *obs)
{
    for (int64_t i = 0; i < envs->spec.envs; i++)
        if (!mask || mask[i])
            HD_TRY(reset_one(envs, i, seed));
    memcpy(obs, envs->obs, (size_t)(envs->spec.envs * envs->obs_bytes));
    return HD_OK;
}

int heddle_envs_reset(struct heddle_envs *envs, const bool *mask, const uint64_t *seed, void *obs,
                      char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, reset(envs, mask, seed, obs));
}

static int step_one(struct heddle_envs *envs, int64_t i, float *reward, bool *terminated,
                    bool *truncated)
{
    struct hd_one_env *one = &envs->ones[i];
    char message[HD_ENV_MESSAGE] = "";
    bool done, late;
    const struct hd_env_outcome outcome = {envs->shown, reward, &done, &late};
    const union hd_action_number *action = envs->action + i * envs->frame.actions.dims;
    if (envs->env->step(one->group, action, &outcome, message) != 0)
        return refuse(envs, i, "step", message);
    *terminated = done && !late;
    *truncated = (done && late) || (++one->steps >= envs->max_steps && envs->max_steps > 0);
    one->ended = *terminated || *truncated;
    push_frame(envs, i);
    return HD_OK;
}

static int step(struct heddle_envs *envs, const void *action, void *obs, float *reward,
                bool *terminated, bool *truncated)
{
    for (int64_t i = 0; i < envs->spec.envs; i++)
        if (!envs->ones[i].started)
            return hd_fail(HD_ERR_INPUT, "environment %" PRId64 " has to be reset first", i);
    HD_TRY(hd_actions_take(&envs->frame.actions, action, envs->spec.envs, envs->action));
    for (int64_t i = 0; i < envs->spec.envs; i++) {
        if (!envs->ones[i].ended) {
            HD_TRY(step_one(envs, i, reward + i, terminated + i, truncated + i));
            continue;
        }
        HD_TRY(reset_one(envs, i, NULL));
        reward[i] = 0;
        terminated[i] = truncated[i] = false;
    }
    memcpy(obs, envs->obs, (size_t)(envs->spec.envs * envs->obs_bytes));
    return HD_OK;
}

int heddle_envs_step(struct heddle_envs *envs, const void *action, void *obs, float *reward,
                     bool *terminated, bool *truncated, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, step(envs, action, obs, reward, terminated, truncated));
}

/* -- Pictures ---------------------------------------------------------------------------------- */

/* Shows the last frame, whose bytes are gray. */
static void show_frame(const struct heddle_envs *envs, int64_t i, uint8_t *rgb)
{
    const char *frame = envs->obs + (i + 1) * envs->obs_bytes - envs->frame_bytes;
    for (int64_t at = 0; at < envs->frame_bytes; at++)
        memset(rgb + 3 * at, (unsigned char)frame[at], 3);
}

static int draw(const struct heddle_envs *envs, int64_t i, uint8_t *rgb)
{
    char message[HD_ENV_MESSAGE] = "";
    if (i < 0 || i >= envs->spec.envs || !envs->ones[i].started)
        return hd_fail(HD_ERR_INPUT, "environment %" PRId64 " is not there, or was not reset", i);
    if (envs->spec.render_height == 0)
        return hd_fail(HD_ERR_UNSUPPORTED, "environment %s has no pictures", envs->env->name);
    if (!envs->env->render)
        show_frame(envs, i, rgb);
    else if (envs->env->render(envs->ones[i].group, 0, rgb, message) != 0)
        return hd_fail(HD_ERR_TASK, "environment %s cannot be drawn: %s", envs->env->name, message);
    return HD_OK;
}

int heddle_envs_render(const struct heddle_envs *envs, int64_t env, uint8_t *rgb, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, draw(envs, env, rgb));
}
