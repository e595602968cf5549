/* SPDX-License-Identifier: Apache-2.0 */
/* One key of a configuration with its value: its reading from YAML, and its hash. One thread at a
 * time may read a setting into memory; several may hash one. */
#pragma once

#include "runtime/base/config/config_key.h"
#include "runtime/base/config/yaml.h"

#include <stdatomic.h>

struct hd_setting {
    const struct hd_key *key;
    const struct hd_node *node; /* as it was written; NULL: no value yet */
    bool given;                 /* not by default */
    uint64_t default_hash;      /* 0: there is no default */
    atomic_bool used;           /* somebody asked for the value */
    int64_t integer;            /* INT without a word */
    double real;                /* REAL */
    bool flag;                  /* BOOL */
    const char *word;           /* INT: the word given in place of a number, or NULL */
    int64_t *ints;              /* INT_LIST, owned */
    int64_t count;              /* of ints */
};

/* Replaces the value by what a node says. Returns HD_OK, HD_ERR_INPUT with the mistakes in diag and
 * the value unchanged, or HD_ERR_NOMEM. */
int hd_setting_read(struct hd_setting *setting, const struct hd_node *node, struct hd_diag *diag);

/* Releases what the setting owns, but not the setting. */
void hd_setting_fini(struct hd_setting *setting);

/* Returns a hash of the value that does not depend on its spelling. */
uint64_t hd_setting_hash(const struct hd_setting *setting);

/* Describes a node for messages: "'abc'", "a list". */
void hd_node_describe(const struct hd_node *node, char description[HD_DESCRIPTION_BYTES]);
