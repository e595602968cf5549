/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/actions.h"

#include "runtime/base/status.h"
#include "tasks/types/base/policy.h"

#include <string.h>

struct hd_env_actions hd_actions_read(const struct hd_config *config)
{
    int64_t count;
    const int64_t *shape = hd_config_get_ints(config, "policy.model.action_shape", &count);
    const bool box = strcmp(hd_config_get_text(config, "policy.action_space"), "continuous") == 0;
    struct hd_env_actions actions = {.kind = box         ? HD_ENV_BOX
                                             : count > 1 ? HD_ENV_MULTI_DISCRETE
                                                         : HD_ENV_DISCRETE};
    const int64_t dims = box ? shape[0] : count;
    actions.dims = dims < HD_ENV_ACTION_DIMS ? (int)dims : HD_ENV_ACTION_DIMS;
    for (int i = 0; i < actions.dims && !box; i++)
        actions.n[i] = shape[i];
    return actions;
}

int hd_actions_check_policy(const struct hd_setup *setup, struct hd_source_location location)
{
    const struct hd_env_actions actions = hd_actions_read(setup->config);
    const struct hd_policy *policy = hd_policy_get(setup->config);
    char text[HD_ACTIONS_TEXT];
    if (policy->actions == HD_POLICY_REAL_NUMBERS && actions.kind != HD_ENV_BOX)
        return hd_diag_add_error(setup->diag, location,
                                 "policy.model.action_shape: policy.type %s chooses real numbers "
                                 "(policy.action_space: continuous), not %s",
                                 policy->name, hd_actions_describe(&actions, text));
    if (actions.kind == HD_ENV_DISCRETE || policy->actions != HD_POLICY_ONE_CHOICE)
        return HD_OK;
    return hd_diag_add_error(setup->diag, location,
                             "policy.model.action_shape: policy.type %s has an output for each "
                             "action, so it cannot choose %s; policy.type ppo can%s",
                             policy->name, hd_actions_describe(&actions, text),
                             actions.kind == HD_ENV_BOX ? ", and sac" : "");
}
