/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and hashes that writing and reading checkpoints share. */
#ifndef HD_RUNTIME_CHECKPOINT_INTERNAL_H
#define HD_RUNTIME_CHECKPOINT_INTERNAL_H

#include "runtime/checkpoint.h"

enum { HD_JOURNAL_BLOCK = 65536 }; /* bytes; the last block of a value may be shorter */

/* "<state>/iteration_<n><suffix>", to be freed with hd_free; NULL: no memory. */
char *hd_checkpoint_path(const char *state, int64_t iteration, const char *suffix);

/* The iterations that have a checkpoint, ascending, to be freed with hd_free; their number, or -1:
 * no memory. */
int hd_checkpoint_list(const char *state, int64_t **iterations_p);

/* A hash as text, and of a manifest but for its own hash. */
json_t *hd_checkpoint_hash_text(uint64_t hash);
uint64_t hd_checkpoint_manifest_hash(json_t *manifest);

#endif
