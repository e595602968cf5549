/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between ranks that share no memory send vectors. Short vectors go whole from
 * every rank to every other. A long vector of floats goes in two steps, a direct reduce-scatter and
 * an all-gather: in step 0 every rank gets its slice of all ranks' vectors and adds them in the
 * tree over the ranks, and in step 1 it sends the sum to all. That is 2 (R - 1) / R of a vector
 * instead of R - 1.
 *
 * Threads: the session's thread lists transfers, any worker adds. */
#ifndef HD_RUNTIME_ENGINE_COLLECTIVE_INTERNAL_H
#define HD_RUNTIME_ENGINE_COLLECTIVE_INTERNAL_H

#include "runtime/engine/submit_internal.h"

enum { HD_MESSAGE_WHOLE = -1 };

/* Returns whether a broadcast sends the vector of the value's reduction and not its bytes: types
 * that can be combined and are not flat. */
static inline bool hd_collective_is_packed(const struct hd_collective *c)
{
    return c->in_spec->type->reduction && !c->in_spec->type->flat;
}

/* Returns whether c goes in two steps; step s has the number of the first + s. Equal on all ranks.
 */
bool hd_message_is_two_step(const struct hd_comm *comm, const struct hd_collective *c);

/* Adds, between the steps, this rank's slice of the vectors that all ranks packed for `sequence`.
 * The sum goes into the own buffer of the next number, where step 1 brings the other slices to.
 * addends: memory for a pointer for every rank. */
void hd_message_add_slice(struct hd_comm *comm, const struct hd_collective *c, int64_t sequence,
                          const float **addends);

/* Completes *point, whose sequence is set, by the transfers of c in `step` or as a whole: none
 * where memory is shared. The point owns them. Returns HD_OK or HD_ERR_NOMEM. */
int hd_message_list_transfers(struct hd_comm *comm, const struct hd_collective *c, int step,
                              struct hd_sync_point *point);

#endif
