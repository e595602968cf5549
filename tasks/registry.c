/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/registry.h"

#include <string.h>

const char *hd_setup_get_option(const struct hd_setup *setup, const char *name)
{
    const struct hd_node *node = hd_node_get(setup->options, name);
    return node ? node->text : NULL;
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
