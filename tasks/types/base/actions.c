/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/actions.h"

#include "runtime/base/status.h"
#include "tasks/types/base/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

static int refuse_bounds(const struct hd_setup *setup, const struct hd_node *node, int dims)
{
    return hd_diag_add_error(
        setup->diag, node->location,
        "policy.action_bounds: expected {low: ..., high: ...}, each a number or "
        "a list of %d",
        dims);
}

static bool read_bound(const struct hd_node *node, float *value_p)
{
    char *end;
    if (!node || node->kind != HD_NODE_SCALAR)
        return false;
    const bool negative = node->text[0] == '-';
    if (strcmp(node->text + negative, ".inf") == 0) {
        *value_p = negative ? -INFINITY : INFINITY;
        return true;
    }
    *value_p = strtof(node->text, &end);
    return end != node->text && !*end && isfinite(*value_p);
}

/* Reads a number for all dimensions, or a list of them. */
static bool read_side(const struct hd_node *node, int dims, float *values)
{
    const bool list = node && node->kind == HD_NODE_LIST;
    if (!node || (list && node->count != dims))
        return false;
    for (int d = 0; d < dims; d++)
        if (!read_bound(list ? node->items[d] : node, &values[d]))
            return false;
    return true;
}

int hd_actions_read_bounds(const struct hd_setup *setup, struct hd_env_actions *box, bool *stated_p)
{
    const struct hd_node *node = hd_config_get_node(setup->config, "policy.action_bounds");
    *stated_p = node && (node->kind == HD_NODE_SCALAR || node->count > 0);
    if (!*stated_p)
        return HD_OK;
    if (node->kind != HD_NODE_MAP || node->count != 2 ||
        !read_side(hd_node_get(node, "low"), box->dims, box->low) ||
        !read_side(hd_node_get(node, "high"), box->dims, box->high))
        return refuse_bounds(setup, node, box->dims);
    return HD_OK;
}

static int write_side(const char *name, const float *values, int dims, char *text, int at)
{
    at += snprintf(text + at, (size_t)(HD_ACTIONS_BOUNDS - at), "%s: [", name);
    for (int d = 0; d < dims; d++) {
        const char *comma = d + 1 < dims ? ", " : "]";
        at += isfinite(values[d]) ? snprintf(text + at, (size_t)(HD_ACTIONS_BOUNDS - at), "%.9g%s",
                                             (double)values[d], comma)
                                  : snprintf(text + at, (size_t)(HD_ACTIONS_BOUNDS - at),
                                             "%s.inf%s", values[d] < 0 ? "-" : "", comma);
    }
    return at;
}

const char *hd_actions_write_bounds(const struct hd_env_actions *box, char text[HD_ACTIONS_BOUNDS])
{
    int at = snprintf(text, HD_ACTIONS_BOUNDS, "{");
    at = write_side("low", box->low, box->dims, text, at);
    at += snprintf(text + at, (size_t)(HD_ACTIONS_BOUNDS - at), ", ");
    at = write_side("high", box->high, box->dims, text, at);
    snprintf(text + at, (size_t)(HD_ACTIONS_BOUNDS - at), "}");
    return text;
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
