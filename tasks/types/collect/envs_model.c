/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/envs_model.h"

#include "runtime/base/status.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int check_obs(const struct hd_spec *spec, const struct hd_setup *setup,
                     const struct hd_envs_model *model)
{
    const struct hd_source_location location =
        hd_config_locate(setup->config, "policy.model.obs_shape", spec->location);
    const struct hd_obs_shape shown = hd_obs_shape_make(model->frame, model->obs->stack);
    char expected[HD_OBS_TEXT], found[HD_OBS_TEXT];
    hd_obs_shape_write(&shown, expected);
    if (strcmp(expected, hd_obs_shape_write(model->obs, found)) != 0)
        return hd_diag_add_error(
            setup->diag, location,
            "policy.model.obs_shape: env.type %s with env.frame_stack %lld shows %s, found %s",
            model->env->name, (long long)model->obs->stack, expected, found);
    for (int i = 0; i < shown.n_parts; i++)
        if (model->obs->part[i].u8 != shown.part[i].u8)
            return hd_diag_add_error(
                setup->diag, location,
                "policy.model.obs_shape: env.type %s shows %s, but observations of "
                "%d dimensions are %s",
                model->env->name, shown.part[i].u8 ? "bytes" : "floats", shown.part[i].dims,
                shown.part[i].u8 ? "floats" : "bytes");
    return HD_OK;
}

/* Checks that stated bounds, which a run also writes into its effective config, are the env's. A
 * squashed policy draws between two bounds, or between -1 and 1 where there are none. */
static int check_bounds(const struct hd_spec *spec, const struct hd_setup *setup,
                        const struct hd_envs_model *model)
{
    const struct hd_env_actions *box = &model->frame->actions;
    const struct hd_source_location location =
        hd_config_locate(setup->config, "policy.action_bounds", spec->location);
    struct hd_env_actions stated = *box;
    bool is_stated;
    if (box->kind != HD_ENV_BOX)
        return HD_OK;
    HD_TRY(hd_actions_read_bounds(setup, &stated, &is_stated));
    for (int d = 0; d < box->dims; d++) {
        if (stated.low[d] != box->low[d] || stated.high[d] != box->high[d])
            return hd_diag_add_error(setup->diag, location,
                                     "policy.action_bounds: number %d of an action of env.type %s "
                                     "lies from %g to %g, found %g to %g",
                                     d, model->env->name, (double)box->low[d], (double)box->high[d],
                                     (double)stated.low[d], (double)stated.high[d]);
        if (model->outputs->squashed && isfinite(box->low[d]) != isfinite(box->high[d]))
            return hd_diag_add_error(
                setup->diag, hd_config_locate(setup->config, "env.type", spec->location),
                "env.type %s: number %d of an action lies from %g to %g, but "
                "policy.type %s draws between two bounds, or between -1 and 1 "
                "where there are none: a wrapper of the environment can map it",
                model->env->name, d, (double)box->low[d], (double)box->high[d],
                hd_policy_get(setup->config)->name);
    }
    return HD_OK;
}

static int check_actions(const struct hd_spec *spec, const struct hd_setup *setup,
                         const struct hd_envs_model *model)
{
    const struct hd_source_location location =
        hd_config_locate(setup->config, "policy.model.action_shape", spec->location);
    const struct hd_env_actions actions = hd_actions_read(setup->config);
    char expected[HD_ACTIONS_TEXT], found[HD_ACTIONS_TEXT];
    if (!hd_actions_are_equal(&actions, &model->frame->actions))
        return hd_diag_add_error(
            setup->diag, location, "policy.model.action_shape: env.type %s has %s, found %s%s",
            model->env->name, hd_actions_describe(&model->frame->actions, expected),
            hd_actions_describe(&actions, found),
            model->frame->actions.kind == HD_ENV_BOX && actions.kind != HD_ENV_BOX
                ? " (policy.action_space: continuous)"
            : actions.kind == HD_ENV_BOX && model->frame->actions.kind != HD_ENV_BOX
                ? " (policy.action_space: discrete)"
                : "");
    HD_TRY(hd_actions_check_policy(setup, location));
    return check_bounds(spec, setup, model);
}

int hd_envs_check_model(const struct hd_envs_model *model, const struct hd_spec *spec,
                        const struct hd_setup *setup)
{
    int obs = check_obs(spec, setup, model), actions = check_actions(spec, setup, model);
    return obs != HD_OK ? obs : actions;
}
