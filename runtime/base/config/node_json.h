/* SPDX-License-Identifier: Apache-2.0 */
/* Trees as JSON, for what reads no YAML. Thread safe on different trees. */
#pragma once

#include "runtime/base/config/node.h"

/* Returns a tree as JSON on one line, to be released by hd_free. Scalars without quotes are what
 * they are elsewhere in a run file: numbers, also 0x1F and 0o17, booleans in any case, null and ~;
 * .inf and .nan become Infinity and NaN, which Python reads. All others are texts. Returns NULL
 * (logged) without memory. */
char *hd_node_build_json(const struct hd_node *node);
