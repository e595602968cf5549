/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a task depends on, as StarPU does from accesses in the order of submission: a reader
 * on the last writer, a writer on all since and including the last writer. One thread at a time. */
#pragma once

#include "runtime/engine/submit.h"

struct hd_dependences;

/* Released by hd_dependences_destroy (accepts NULL). Returns HD_OK or HD_ERR_NOMEM. */
int hd_dependences_create(struct hd_dependences **dependences_p);
void hd_dependences_destroy(struct hd_dependences *dependences);

/* Finds what node number `node`, one more than the last, depends on through its accesses, and, if
 * token is not NULL, because it changes what that address stands for. Stores a list of different
 * nodes that the next call overwrites, and its length. Returns HD_OK or HD_ERR_NOMEM. */
int hd_dependences_find(struct hd_dependences *dependences, int node,
                        const struct hd_access *accesses, int n, const void *token,
                        const int **before_p, int *n_p);
