/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a run file: those of every run, and those of the verbs and types. One thread at a
 * time. */
#pragma once

#include "runtime/base/config/config.h"

#include <stdio.h>

/* Returns tables[*n_p] of keys, each ended by a key without a name. */
const struct hd_key *const *hd_run_keys_get(int *n_p);

/* Prints the keys that are `path` or below it (NULL: all) with range, default and meaning. Returns
 * HD_OK, or HD_ERR_INPUT (logged, with what may be meant) when there is none. */
int hd_run_keys_print(const char *path, FILE *file);

/* Prints all keys as a JSON Schema. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_run_keys_print_json(FILE *file);
