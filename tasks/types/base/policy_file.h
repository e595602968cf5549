/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the policy of a file of weights, so that it acts anywhere as it was trained: the part
 * of the effective config that says the net, what it sees and does, and its environment, as YAML in
 * the file's metadata. A file of weights is data: what it names is compared and shown, but code is
 * never loaded because of it. One thread at a time for each config. */
#pragma once

#include "runtime/base/config/config.h"

/* The keys of the metadata: of the description, and of what the policy was trained with beside it,
 * as JSON (runner/base/origins.h). */
extern const char *const hd_policy_file_key, *const hd_policy_file_origins_key;

/* Returns what a policy with this config has in its file, freed with free; NULL: no memory. Options
 * of an environment are part of it only if it is built in. */
char *hd_policy_file_describe(const struct hd_config *config);

/* Returns whether a path names a file of weights, by its end. */
bool hd_policy_file_is_named(const char *path);

/* Reads a file's description as a document of a config. Returns HD_OK, HD_ERR_INPUT (logged, or in
 * `diag`: an older file has none), or what hd_safetensors_open does. */
int hd_policy_file_read(const char *path, struct hd_diag *diag, struct hd_document **document_p);

/* Stores what a file says of its origins, to be freed with hd_free; NULL: nothing. Returns HD_OK,
 * HD_ERR_NOMEM, or what hd_safetensors_open does. */
int hd_policy_file_read_origins(const char *path, char **text_p);

/* Puts the shapes and bounds of the policy in the file `weights` where `config` leaves them open,
 * and warns if it is of another environment or algorithm. Files that say nothing change nothing.
 * Returns HD_OK, HD_ERR_NOMEM, HD_ERR_INPUT with an error in `diag` where stated bounds differ, or
 * what hd_safetensors_open does. */
int hd_policy_file_complete(struct hd_config *config, const char *weights, struct hd_diag *diag);
