/* SPDX-License-Identifier: Apache-2.0 */
/* Called when a run file was read, before its graph. */
#include "tasks/types/base/spaces.h"

#include "runtime/base/status.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/policy.h"

#include <stdio.h>
#include <string.h>

enum { LIST_BYTES = 24 * HD_ENV_ACTION_DIMS };

static const char obs_shape[] = "policy.model.obs_shape",
                  action_shape[] = "policy.model.action_shape",
                  action_space[] = "policy.action_space";

static bool is_auto(const struct hd_config *config, const char *key)
{
    return strcmp(key, action_space) == 0 ? strcmp(hd_config_get_text(config, key), "auto") == 0
                                          : hd_config_get_word(config, key) != NULL;
}

int hd_spaces_fill(struct hd_config *config, const char *key, const char *text)
{
    return is_auto(config, key) ? hd_config_override(config, key, text) : HD_OK;
}

static int fill_list(struct hd_config *config, const char *key, const int64_t *numbers, int n)
{
    char text[LIST_BYTES];
    int at = 0;
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i == 0 ? "[" : ", ",
                       (long long)numbers[i]);
    snprintf(text + at, sizeof text - (size_t)at, "]");
    return hd_spaces_fill(config, key, text);
}

static int take_spaces(struct hd_config *config, const struct hd_env_spec *spec)
{
    const struct hd_env_actions *actions = &spec->actions;
    const bool box = actions->kind == HD_ENV_BOX;
    const int64_t stack = hd_config_get_int(config, "env.frame_stack"), reals = actions->dims;
    const struct hd_obs_shape obs = hd_obs_shape_make(spec, stack);
    char text[HD_OBS_TEXT];
    HD_TRY(hd_spaces_fill(config, obs_shape, hd_obs_shape_write(&obs, text)));
    HD_TRY(fill_list(config, action_shape, box ? &reals : actions->n, box ? 1 : actions->dims));
    return hd_spaces_fill(config, action_space, box ? "continuous" : "discrete");
}

static int ask_env(const struct hd_config *config, struct hd_diag *diag, struct hd_env_spec *spec_p)
{
    const struct hd_env *env;
    struct hd_env_settings settings = {0};
    int status = hd_env_options_read(config, &settings);
    if (status == HD_OK)
        status = hd_env_probe(config, &settings, (struct hd_source_location){.file = "env"}, diag,
                              &env, spec_p, NULL);
    hd_env_options_release(&settings);
    return status;
}

static int refuse_code(const struct hd_config *config, struct hd_diag *diag)
{
    return hd_diag_add_error(
        diag, hd_config_locate(config, "env.type", (struct hd_source_location){.file = "env.type"}),
        "%s, %s and %s are left to env.type %s, whose code is not loaded here: state them, as the "
        "total_config.yaml of a run does",
        obs_shape, action_shape, action_space, hd_config_get_text(config, "env.type"));
}

/* Takes the kind of actions that the algorithm has alone, where no environment can be asked. */
static int take_kind_of_policy(struct hd_config *config, struct hd_diag *diag)
{
    const enum hd_policy_actions actions = hd_policy_get(config)->actions;
    if (actions == HD_POLICY_ONE_CHOICE)
        return hd_config_override(config, action_space, "discrete");
    if (actions == HD_POLICY_REAL_NUMBERS)
        return hd_config_override(config, action_space, "continuous");
    return refuse_code(config, diag);
}

int hd_spaces_resolve(struct hd_config *config, bool plugins, struct hd_diag *diag)
{
    const bool open = is_auto(config, obs_shape) || is_auto(config, action_shape);
    struct hd_env_spec spec = {0};
    if (!open && !is_auto(config, action_space))
        return HD_OK;
    if (!plugins && hd_env_is_plugin(config))
        return open ? refuse_code(config, diag) : take_kind_of_policy(config, diag);
    HD_TRY(ask_env(config, diag, &spec));
    return take_spaces(config, &spec);
}
