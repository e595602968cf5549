/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between hosts send vectors, each from a rank to its partners (comm.h). Short vectors
 * go whole, and every rank adds them. A long vector of floats is added in steps, by which every
 * host sends 2 (H - 1) / H of a vector in all:
 *   1. Where a host has several ranks: they wait for each other (a sync point on the host), and
 * each adds the host's vectors in the slices of its partners and in its own.
 *   2. Partners send each other these sums (reduce-scatter), and each adds the hosts' sums of its
 *      slice.
 *   3. Partners send each other the sums (all-gather), to where all ranks of their host read them.
 * The sum of a host is a node of the tree, so the order of sums is that of a single rank.
 *
 * Threads: the session's thread lists transfers, any worker adds. */
#ifndef HD_RUNTIME_ENGINE_COLLECTIVE_INTERNAL_H
#define HD_RUNTIME_ENGINE_COLLECTIVE_INTERNAL_H

#include "runtime/engine/submit_internal.h"

enum hd_message_step { HD_MESSAGE_WHOLE, HD_MESSAGE_SCATTER, HD_MESSAGE_GATHER };

/* Returns whether a broadcast sends the vector of the value's reduction and not its bytes: types
 * that can be combined and are not flat. */
static inline bool hd_collective_is_packed(const struct hd_collective *c)
{
    return c->in_spec->type->reduction && !c->in_spec->type->flat;
}

/* Returns whether c goes in slices. Equal on all ranks. */
bool hd_message_is_sliced(const struct hd_comm *comm, const struct hd_collective *c);

/* Step 1: adds the vectors that the ranks of this host packed for `packed`. The sums go into the
 * own buffer of the next number. addends: memory for a pointer for every rank. */
void hd_message_add_host(struct hd_comm *comm, const struct hd_collective *c, int64_t packed,
                         const float **addends);

/* Step 2: adds this rank's slice of the hosts' sums, which `scatter` brought, into the buffer that
 * hd_message_get_sum returns for the next number. */
void hd_message_add_slice(struct hd_comm *comm, const struct hd_collective *c, int64_t scatter,
                          const float **addends);

/* Returns where the sum is once `gather`, the number of step 3, has been passed. */
void *hd_message_get_sum(struct hd_comm *comm, int64_t gather);

/* Completes *point, whose sequence is set, by the transfers of c in `step`: none where there is one
 * host. The point owns them. Returns HD_OK or HD_ERR_NOMEM. */
int hd_message_list_transfers(struct hd_comm *comm, const struct hd_collective *c,
                              enum hd_message_step step, struct hd_sync_point *point);

#endif
