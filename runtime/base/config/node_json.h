/* SPDX-License-Identifier: Apache-2.0 */
/* Trees as JSON, for what reads no YAML. Thread safe on different trees. */
#ifndef HD_RUNTIME_BASE_CONFIG_NODE_JSON_H
#define HD_RUNTIME_BASE_CONFIG_NODE_JSON_H

#include "runtime/base/config/node.h"

/* Returns a tree as JSON on one line, to be released by hd_free. Scalars without quotes that read
 * as a number, true, false, null or ~ are these; all others are texts. Returns NULL (logged)
 * without memory. */
char *hd_node_build_json(const struct hd_node *node);

#endif
