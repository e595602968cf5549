/* SPDX-License-Identifier: Apache-2.0 */
/* The typed configuration of a run: schema defaults < file < --set options. Every key has a type, a
 * range and a sentence of help, from one table; an unknown key is a mistake that names the nearest.
 * Read-only, hence thread safe, once created. */
#ifndef HD_RUNTIME_BASE_CONFIG_CONFIG_H
#define HD_RUNTIME_BASE_CONFIG_CONFIG_H

#include "runtime/base/config/yaml.h"

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

struct hd_key {
    const char *path; /* "policy.learn.batch_size" */
    enum hd_key_kind kind;
    double min, max;
    const char *initial; /* the default as it would be written; NULL: the key must be given */
    const char *choices; /* CHOICE: "exp|linear"; INT: words allowed beside numbers, "auto" */
    const char *scope;   /* "per shard", "global", "per rank", … shown in the effective config; or
                            NULL */
    const char *help;    /* one sentence with the unit */
};

/* A table ends with path == NULL. */
struct hd_config;

/* Checks `document` (NULL: no file) against the tables schema[n_schema], which outlive the config,
 * and applies sets[n_sets] in turn, each "a.b=value" with a YAML scalar or flow value. Their
 * locations: file "--set", line the option's number from 1, column within its text from 1. All
 * mistakes go to diag, the schema's own too (file "schema"); then returns HD_ERR_INPUT. The config
 * takes the document over when it returns HD_OK. Released by hd_config_destroy (accepts NULL). */
int hd_config_create(const struct hd_key *const *schema, int n_schema, struct hd_document *document,
                     const char *const *sets, int n_sets, struct hd_diag *diag,
                     struct hd_config **config_p);
void hd_config_destroy(struct hd_config *config);

/* The value of a key of the schema. Asking for a path outside it, or for another kind, is a
 * programming error and aborts. */
int64_t hd_config_get_int(const struct hd_config *config, const char *path);
double hd_config_get_real(const struct hd_config *config, const char *path);
bool hd_config_get_bool(const struct hd_config *config, const char *path);
const char *hd_config_get_text(const struct hd_config *config, const char *path); /* TEXT, CHOICE */

/* INT keys with words: the word when one was given, else NULL. */
const char *hd_config_get_word(const struct hd_config *config, const char *path);

/* INT_LIST: the numbers, borrowed; count stored in *count_p. */
const int64_t *hd_config_get_ints(const struct hd_config *config, const char *path,
                                  int64_t *count_p);

/* The node that decided a key (for locations, trees and maps), or NULL when the default did; for a
 * TREE or MAP key the default's node too, unless that is empty. */
const struct hd_node *hd_config_get_node(const struct hd_config *config, const char *path);

/* The i-th --set of something inside a TREE key ("strategy.policy_lag=1" where "strategy" is one):
 * its name within the tree ("policy_lag", with its location), the value stored in *value_p; NULL
 * past the end. They come in the order of the options and override the tree; to check and apply
 * them is up to the tree's owner, who then puts the result in place with hd_config_override_tree.
 */
const struct hd_node *hd_config_get_inner_set(const struct hd_config *config, const char *path,
                                              int64_t i, const struct hd_node **value_p);

/* Looks a dotted path up as a number for expressions ("$env.stop_value"): INT, REAL and BOOL keys.
 * Returns false when there is no such key or it is no number (then *nearest_p is a suggestion or
 * NULL). */
bool hd_config_find_number(const struct hd_config *config, const char *path, double *value_p,
                           const char **nearest_p);

/* Replaces a value by YAML text, as --set does, for values derived at start ("world.shards").
 * Mistakes are logged. Not while another thread reads. */
int hd_config_override(struct hd_config *config, const char *path, const char *text);

/* Replaces a TREE key's node (the config keeps a copy) and forgets its inner sets. */
int hd_config_override_tree(struct hd_config *config, const char *path, const struct hd_node *node);

/* Writes every key with its effective value as YAML that reads back to an equal config, nested as
 * in the schema, numbers spelled as they were given, with the scope as a comment where there is
 * one. Inner sets must have been applied. */
int hd_config_dump(const struct hd_config *config, FILE *file);

/* Hash of the effective values except the keys listed in without[n] (whole paths). Equal configs
 * have equal hashes whatever the order or spelling in the file. */
uint64_t hd_config_hash(const struct hd_config *config, const char *const *without, int n);

/* Prints the schema as a reference: two lines a key, its default, then meaning, kind and scope. */
void hd_schema_print(const struct hd_key *const *schema, int n_schema, FILE *file);

#endif
