/* SPDX-License-Identifier: Apache-2.0 */
/* An effective config as a list of its leaves, for comparisons key by key. Thread safe. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Appends to `list` a pair ["policy.learn.batch_size", "64"] for each leaf of YAML text[bytes]
 * called `name`, in their order; a leaf is a scalar, or a list of scalars as "[a, b]". Maps whose
 * order is that of a net's parameters come as leaves too, as "{a, b}" of their keys. Returns
 * HD_OK, HD_ERR_INPUT or HD_ERR_FORMAT when the text is no config, or HD_ERR_NOMEM (all logged). */
int hd_config_list_leaves(const char *name, const char *text, int64_t bytes, json_t *list);

/* Returns the text of a leaf in such a list; NULL: there is none. */
const char *hd_config_find_leaf(const json_t *list, const char *path);
