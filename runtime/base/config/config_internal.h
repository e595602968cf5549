/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration's parts: config_load.c makes it of the schema, the file and the --sets, config.c
 * reads and overrides values, and config_dump.c writes what is effective. Threads as config.h
 * says. */
#pragma once

#include "runtime/base/config/config.h"
#include "runtime/base/config/config_setting.h"

/* A --set of something inside a TREE key, which only the tree's owner can check. */
struct hd_inner_set {
    const struct hd_setting *tree;
    const struct hd_node *name, *value;
};

struct hd_config {
    const struct hd_key *const *schema;
    int n_schema;
    struct hd_document *document; /* the file, or NULL */
    struct hd_document *nodes;    /* every other node */
    struct hd_node *levels;       /* the schema as nested maps; leaves hold whole paths */
    struct hd_setting *settings;  /* in order of path */
    int64_t count;
    struct hd_inner_set *inner_sets;
    int64_t inner_count, inner_capacity;
};

/* Returns the setting of a whole path, or NULL. */
struct hd_setting *hd_config_find_setting(const struct hd_config *config, const char *path);
