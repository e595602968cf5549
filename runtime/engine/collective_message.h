/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives send where ranks' memory is apart. Short vectors go whole from every rank to
 * every other. A long vector of floats goes in two steps, a direct reduce-scatter and an
 * all-gather: in step 0 every rank gets its slice of all ranks' vectors, adds them in the tree over
 * the ranks, and in step 1 sends the sum to all, 2 (R - 1) / R of a vector instead of R - 1. */
#ifndef HD_RUNTIME_ENGINE_COLLECTIVE_MESSAGE_H
#define HD_RUNTIME_ENGINE_COLLECTIVE_MESSAGE_H

#include "runtime/engine/session_internal.h"

enum { HD_MESSAGE_WHOLE = -1 };

/* Whether c goes in two steps; step s has the number of the first + s. Equal on all ranks. */
bool hd_message_is_two_step(const struct hd_comm *comm, const struct hd_collective *c);

/* Between the steps: adds this rank's slice of what all ranks packed for `sequence`; the sum goes
 * into the own buffer of the next number, where step 1 brings the other slices to. addends: a
 * pointer for every rank. */
void hd_message_add_slice(struct hd_comm *comm, const struct hd_collective *c, int64_t sequence,
                          const float **addends);

/* Completes *point, whose sequence is set, by what c moves there in `step` or as a whole: nothing
 * where memory is shared. The point owns it. Errors: HD_ERR_NOMEM. */
int hd_message_list_transfers(struct hd_comm *comm, const struct hd_collective *c, int step,
                              struct hd_sync_point *point);

#endif
