/* SPDX-License-Identifier: Apache-2.0 */
/* The typed configuration of a run: a file overrides the schema's defaults, --set options override
 * the file. An unknown key is a mistake that names the nearest key. Once created, several threads
 * may read a configuration, but for the two override functions. */
#pragma once

#include "runtime/base/config/config_key.h"
#include "runtime/base/config/yaml.h"

struct hd_config;

/* A value given on the command line. Both texts outlive the config. */
struct hd_set {
    const char *text;   /* "a.b=value" with a YAML scalar or flow value */
    const char *option; /* the option that stands for it, for messages ("--seed"); NULL: --set */
};

/* Checks `document` (NULL: no file) against the tables schema[n_schema], which must outlive the
 * config, and applies sets[n_sets] in turn. Their locations are those of an option alone, or have
 * the file "--set", the number of the set from 1 as the line, and a column within its text from 1.
 * A file that is no map is told alone. Returns HD_OK, when the config has taken the document over;
 * HD_ERR_INPUT with all mistakes in diag, also those of the schema (file "schema"); or
 * HD_ERR_NOMEM. hd_config_destroy releases the config and its document, and accepts NULL. */
int hd_config_create(const struct hd_key *const *schema, int n_schema, struct hd_document *document,
                     const struct hd_set *sets, int n_sets, struct hd_diag *diag,
                     struct hd_config **config_p);
void hd_config_destroy(struct hd_config *config);

/* Return the value of a key of the schema. Asking for a path that no schema has, or for another
 * kind, is a programming error and aborts. */
int64_t hd_config_get_int(const struct hd_config *config, const char *path);
double hd_config_get_real(const struct hd_config *config, const char *path);
bool hd_config_get_bool(const struct hd_config *config, const char *path);
const char *hd_config_get_text(const struct hd_config *config, const char *path); /* TEXT, CHOICE */

/* Returns the word that was given for an INT, INT_LIST or SHAPES key in place of numbers, or NULL.
 * Borrowed.
 */
const char *hd_config_get_word(const struct hd_config *config, const char *path);

/* Returns the numbers [*count_p] of an INT_LIST or SHAPES key, which has no word; of a map none.
 * Borrowed. */
const int64_t *hd_config_get_ints(const struct hd_config *config, const char *path,
                                  int64_t *count_p);

/* Returns the map of a SHAPES key, whose values are integers and lists of them; NULL: it has none.
 * Borrowed. */
const struct hd_node *hd_config_get_shapes(const struct hd_config *config, const char *path);

/* Returns the node that decided a key (for locations, trees and maps), or NULL when the default
 * did; for a TREE or MAP key also the default's node, unless that is empty. Borrowed. */
const struct hd_node *hd_config_get_node(const struct hd_config *config, const char *path);

/* Returns the same, for a reader that has no effect of its own: it does not count as use. */
const struct hd_node *hd_config_peek_node(const struct hd_config *config, const char *path);

/* Returns where a key was decided, or `otherwise` when the default did. */
struct hd_source_location hd_config_locate(const struct hd_config *config, const char *path,
                                           struct hd_source_location otherwise);

/* Returns the i-th --set of something inside a TREE key ("strategy.policy_lag=1" where "strategy"
 * is one): its name within the tree ("policy_lag", with its location), and the value in *value_p;
 * NULL past the end. They come in the order of the options and override the tree. The tree's owner
 * checks and applies them, and then stores the result with hd_config_override_tree. */
const struct hd_node *hd_config_get_inner_set(const struct hd_config *config, const char *path,
                                              int64_t i, const struct hd_node **value_p);

/* Looks a dotted path up as a number for expressions ("$env.stop_value"): INT, REAL and BOOL keys;
 * of a MAP key, how many values it has. Returns false when there is no such key or it is no number
 * (then *nearest_p is a suggestion or NULL). */
bool hd_config_find_number(const struct hd_config *config, const char *path, double *value_p,
                           const char **nearest_p);

/* Looks a dotted path up as a text for options ("$policy.type"): TEXT and CHOICE keys. Returns NULL
 * when there is no such key or it is no text (then *nearest_p is a suggestion or NULL). Borrowed.
 */
const char *hd_config_find_text(const struct hd_config *config, const char *path,
                                const char **nearest_p);

/* Takes back that a key has been asked for: by a reader that has no effect of its own, before
 * others ask. */
void hd_config_forget_use(const struct hd_config *config, const char *path);

/* Tells `diag` of the keys to which the file or a --set gave another value than the default, and
 * for which none of the functions above but hd_config_locate has been asked, as "PATH is not used
 * by USER". */
void hd_config_report_unused(const struct hd_config *config, const char *user,
                             struct hd_diag *diag);

/* Replaces a value by YAML text, as --set does, for values derived at start ("world.shards"), while
 * no other thread reads. Returns HD_OK, HD_ERR_INPUT (logged) or HD_ERR_NOMEM. */
int hd_config_override(struct hd_config *config, const char *path, const char *text);

/* Replaces the node of a TREE or MAP key by a copy and forgets the --sets inside a tree, while no
 * other thread reads. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_config_override_tree(struct hd_config *config, const char *path, const struct hd_node *node);

/* Writes every key with its effective value as YAML that reads back to an equal config: nested as
 * in the schema, numbers spelled as they were given, scopes as comments; or those keys alone that
 * begin with one of prefixes[n], if n > 0. The --sets inside trees must have been applied. Returns
 * HD_OK, HD_ERR_SYSTEM (logged) or HD_ERR_NOMEM. */
int hd_config_dump(const struct hd_config *config, const char *const *prefixes, int n, FILE *file);

/* Returns what hd_config_dump writes as a text, to be freed with free; NULL (logged): no memory. */
char *hd_config_format(const struct hd_config *config, const char *const *prefixes, int n);

/* Returns a hash of the effective values but those of the keys without[n] (whole paths). Configs
 * that differ only in spelling, or in an order without a meaning, have equal hashes. */
uint64_t hd_config_hash(const struct hd_config *config, const char *const *without, int n);

/* Writes what hd_config_hash is made of, a line "key<TAB>hash<TAB>value" for each key; lists and
 * trees have no value there. Returns HD_OK or HD_ERR_NOMEM. */
int hd_config_list(const struct hd_config *config, const char *const *without, int n, FILE *file);
