/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a run file: those of every run, and those of the verbs and types. One thread at a
 * time. */
#ifndef HD_GRAPH_RUNNER_RUN_KEYS_H
#define HD_GRAPH_RUNNER_RUN_KEYS_H

#include "runtime/base/config/config.h"

#include <stdio.h>

/* Returns tables[*n_p] of keys, each ended by a key without a name. */
const struct hd_key *const *hd_run_keys_get(int *n_p);

/* Prints every key with its range, default and meaning. */
void hd_run_keys_print(FILE *file);

#endif
