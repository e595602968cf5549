/* SPDX-License-Identifier: Apache-2.0 */
/* One key of a configuration with its value: reading it from YAML, and its hash. */
#ifndef HD_RUNTIME_BASE_CONFIG_CONFIG_SETTING_H
#define HD_RUNTIME_BASE_CONFIG_CONFIG_SETTING_H

#include "runtime/base/config/config.h"

struct hd_setting {
    const struct hd_key *key;
    const struct hd_node *node; /* as it was written; NULL: no value yet */
    bool given;                 /* not by default */
    int64_t integer;            /* INT without a word */
    double real;                /* REAL */
    bool flag;                  /* BOOL */
    const char *word;           /* INT: the word given in place of a number, or NULL */
    int64_t *ints;              /* INT_LIST, owned */
    int64_t count;              /* of ints */
};

/* Replaces the value by a node; mistakes go to diag, return HD_ERR_INPUT and leave it as it was. */
int hd_setting_read(struct hd_setting *setting, const struct hd_node *node, struct hd_diag *diag);
void hd_setting_fini(struct hd_setting *setting);

/* Hash of the value, whatever its spelling. */
uint64_t hd_setting_hash(const struct hd_setting *setting);

enum { HD_DESCRIPTION_BYTES = 256 };

/* What a key takes: "an integer in [1, 64] or 'auto'". */
void hd_key_describe(const struct hd_key *key, char description[HD_DESCRIPTION_BYTES]);

/* What a node is, for messages: "'abc'", "a list". */
void hd_node_describe(const struct hd_node *node, char description[HD_DESCRIPTION_BYTES]);

#endif
