/* SPDX-License-Identifier: Apache-2.0 */
/* The schema of a configuration: tables of keys. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum hd_key_kind {
    HD_KEY_INT,      /* integer in [min, max]; 1e6 is accepted where it is whole */
    HD_KEY_REAL,     /* finite number in [min, max] */
    HD_KEY_BOOL,     /* true | false */
    HD_KEY_TEXT,     /* any scalar */
    HD_KEY_CHOICE,   /* one of `choices` */
    HD_KEY_INT_LIST, /* list of integers in [min, max], at least one; a single integer is a list */
    HD_KEY_SHAPES,   /* likewise, or a map of such lists */
    HD_KEY_TREE,     /* a scalar or any tree, kept as it is (graph:, strategy:) */
    HD_KEY_MAP       /* a map of values of any name; --set key.name=v puts one in */
};

/* A key. A table of keys ends with path == NULL. */
struct hd_key {
    const char *path; /* "policy.learn.batch_size" */
    enum hd_key_kind kind;
    double min, max;     /* of a TREE: min 1 means that its maps are ordered, as in SHAPES */
    const char *initial; /* the default as it would be written; NULL: the key must be given */
    const char
        *choices;      /* CHOICE: "exp|linear"; INT, INT_LIST, SHAPES: words allowed in its place */
    const char *scope; /* "per shard", "global", "per rank", for the effective config; or NULL */
    const char *help;  /* one sentence with the unit */
    const char *aliases; /* names that others give it, "lr|alpha", for suggestions; or NULL */
};

enum { HD_DESCRIPTION_BYTES = 256 };

/* Describes what values a key takes: "an integer in [1, 64] or 'auto'". */
void hd_key_describe(const struct hd_key *key, char description[HD_DESCRIPTION_BYTES]);

/* Prints the keys of the tables schema[n_schema] that are `path` or below it (NULL: all) as a
 * reference: two lines a key, with its default, meaning, kind and scope. Returns the number of
 * keys; cannot fail. */
int hd_schema_print(const struct hd_key *const *schema, int n_schema, const char *path, FILE *file);

/* Writes the tables as a JSON Schema (draft 2020-12) of a file that has them nested. A write that
 * fails is seen by ferror(file). Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_schema_print_json(const struct hd_key *const *schema, int n_schema, const char *title,
                         FILE *file);

/* List the paths of the keys that are called as the last part of `name`, at most three, as
 * "'a.b' or 'c.d'"; hd_schema_suggest else the key or section nearest to it. An empty text means
 * that there is none. */
void hd_schema_list_called(const struct hd_key *const *schema, int n_schema, const char *name,
                           char list[HD_DESCRIPTION_BYTES]);
void hd_schema_suggest(const struct hd_key *const *schema, int n_schema, const char *name,
                       char suggestion[HD_DESCRIPTION_BYTES]);
