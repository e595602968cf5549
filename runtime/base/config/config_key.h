/* SPDX-License-Identifier: Apache-2.0 */
/* The schema of a configuration: tables of keys. Thread safe. */
#ifndef HD_RUNTIME_BASE_CONFIG_CONFIG_KEY_H
#define HD_RUNTIME_BASE_CONFIG_CONFIG_KEY_H

#include <stdio.h>

enum hd_key_kind {
    HD_KEY_INT,      /* integer in [min, max]; 1e6 is accepted where it is whole */
    HD_KEY_REAL,     /* finite number in [min, max] */
    HD_KEY_BOOL,     /* true | false */
    HD_KEY_TEXT,     /* any scalar */
    HD_KEY_CHOICE,   /* one of `choices` */
    HD_KEY_INT_LIST, /* list of integers in [min, max], at least one; a single integer is a list */
    HD_KEY_TREE,     /* a scalar or any tree, kept as it is (graph:, strategy:) */
    HD_KEY_MAP       /* a map of scalars of any name; --set key.name=v puts one in */
};

/* A key. A table of keys ends with path == NULL. */
struct hd_key {
    const char *path; /* "policy.learn.batch_size" */
    enum hd_key_kind kind;
    double min, max;
    const char *initial; /* the default as it would be written; NULL: the key must be given */
    const char *choices; /* CHOICE: "exp|linear"; INT: words allowed beside numbers, "auto" */
    const char *scope;   /* "per shard", "global", "per rank", for the effective config; or NULL */
    const char *help;    /* one sentence with the unit */
};

enum { HD_DESCRIPTION_BYTES = 256 };

/* Describes what values a key takes: "an integer in [1, 64] or 'auto'". */
void hd_key_describe(const struct hd_key *key, char description[HD_DESCRIPTION_BYTES]);

/* Prints the tables schema[n_schema] as a reference: two lines a key, with its default, meaning,
 * kind and scope. */
void hd_schema_print(const struct hd_key *const *schema, int n_schema, FILE *file);

#endif
