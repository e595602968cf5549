/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/policy.h"

#include "runtime/base/status.h"
#include "tasks/base/policies.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define POLICY(name, outputs, on_policy, actions, graph) \
    {#name, &hd_outputs[HD_OUTPUTS_##outputs], on_policy, HD_POLICY_##actions, graph}
/* clang-format on */
#define COMMA ,
static const struct hd_policy policies[] = {HD_POLICIES(POLICY, COMMA)};

enum { N_POLICIES = sizeof policies / sizeof *policies };

const struct hd_policy *hd_policy_find(const char *name)
{
    for (int i = 0; i < N_POLICIES; i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

const struct hd_policy *hd_policy_get(const struct hd_config *config)
{
    return hd_policy_find(hd_config_get_text(config, "policy.type"));
}

static int refuse(const struct hd_setup *setup, const char *why, const char *types)
{
    return hd_diag_add_error(setup->diag,
                             hd_config_locate(setup->config, "policy.type", setup->location),
                             "%s: policy.type must be %s, found %s", why, types,
                             hd_config_get_text(setup->config, "policy.type"));
}

int hd_policy_check_loss(const struct hd_setup *setup, const char *loss)
{
    const struct hd_policy *policy = hd_policy_find(loss);
    char why[128];
    if (!policy || hd_policy_get(setup->config) == policy)
        return HD_OK;
    snprintf(why, sizeof why, "loss %s learns %s", loss, policy->outputs->what);
    return refuse(setup, why, loss);
}

int hd_policy_check_on_policy(const struct hd_setup *setup, const char *why)
{
    char types[128] = "";
    size_t length = 0;
    if (hd_policy_get(setup->config)->on_policy)
        return HD_OK;
    for (int i = 0; i < N_POLICIES; i++)
        if (policies[i].on_policy && length < sizeof types)
            length += (size_t)snprintf(types + length, sizeof types - length, "%s%s",
                                       length > 0 ? " or " : "", policies[i].name);
    return refuse(setup, why, types);
}
