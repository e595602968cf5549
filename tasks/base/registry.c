/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/base/registry.h"

#include "runtime/base/status.h"

#include <string.h>

const char *hd_setup_get_option(const struct hd_setup *setup, const char *name)
{
    const struct hd_node *node = hd_node_get(setup->options, name);
    const char *nearest;
    const char *text = node && node->text && node->text[0] == '$'
                           ? hd_config_find_text(setup->config, node->text + 1, &nearest)
                           : NULL;
    return text ? text : node ? node->text : NULL;
}

int hd_setup_check_order(const struct hd_setup *setup, const char *low, const char *high,
                         const char *why)
{
    const struct hd_config *config = setup->config;
    const char *nearest;
    double a = 0, b = 0;
    if (!hd_config_find_number(config, low, &a, &nearest) ||
        !hd_config_find_number(config, high, &b, &nearest) || a <= b)
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, hd_config_locate(config, low, hd_config_locate(config, high, setup->location)),
        "%s: expected at most %s, which is %.15g, found %.15g: %s", low, high, b, a, why);
}

const struct hd_type *hd_registry_find_type(const struct hd_registry *from, const char *name)
{
    for (int i = 0; from->types[i]; i++)
        if (strcmp(from->types[i]->name, name) == 0)
            return from->types[i];
    return NULL;
}

const struct hd_verb *hd_registry_find_verb(const struct hd_registry *from, const char *name)
{
    for (int i = 0; from->verbs[i]; i++)
        if (strcmp(from->verbs[i]->name, name) == 0)
            return from->verbs[i];
    return NULL;
}

int hd_inputs_set_rng(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views, (void)args;
    *(struct hd_rng *)context->inputs = context->rng;
    return HD_OK;
}
