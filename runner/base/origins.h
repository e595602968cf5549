/* SPDX-License-Identifier: Apache-2.0 */
/* Origins: what a run reads that its config names and does not hold: data sets, code and ROMs of
 * environments, files of env.options. The identity of each is a hash of its content, in a few
 * words; it says nothing of where it lies. One thread at a time. */
#pragma once

#include "runner/base/run_spec.h"

#include <jansson.h>

/* Stores an object {"dataset": "<hash>, 500 transitions", …} of the identities of all origins by
 * the names of values or keys, for json_decref. May start an environment's Python. Returns HD_OK,
 * HD_ERR_NOMEM, HD_ERR_INPUT for a file that cannot be read, or HD_ERR_TASK (logged). */
int hd_origins_find(const struct hd_run_spec *run_spec, json_t **origins_p);

/* Writes how two such objects differ to text[bytes], cut at its end: "dataset is … <here>, but …
 * <there>; …". Returns whether they do. Anything may be in `theirs`, NULL: nothing. */
bool hd_origins_describe_difference(const json_t *ours, const char *here, const json_t *theirs,
                                    const char *there, char *text, size_t bytes);

/* Warns when weights learned in environments of other code than those that evaluate them here. */
void hd_origins_compare_weights(const struct hd_run_spec *run_spec, const char *weights);
