/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/registry.h"

const char *hd_setup_option(const struct hd_setup *setup, const char *name)
{
    const struct hd_node *node = hd_node_get(setup->options, name);
    return node ? node->text : NULL;
}
