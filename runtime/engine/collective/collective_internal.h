/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between hosts send vectors, each from a rank to its partners (comm.h). Short vectors
 * go whole, and every rank adds them. A long vector of floats is added in steps, by which every
 * host sends 2 (H - 1) / H of a vector in all:
 *   1. Where a host has several ranks: they wait for each other (a sync point on the host), and
 * each adds the host's vectors in the slices of its partners and in its own.
 *   2. Partners send each other these sums (reduce-scatter), and each adds the hosts' sums of its
 *      slice.
 *   3. Partners send each other the sums (all-gather), to where all ranks of their host read them.
 * Among many hosts a short vector goes by pairs, in log2 H rounds of one message of each host
 * (recursive doubling, Thakur, Rabenseifner and Gropp 2005): the first rank of each host, its
 * courier, adds the host's vectors; in round k the couriers of hosts h and h xor 2^k send each
 * other their sums, and both add them, that of the lower host first; then the ranks of the host
 * read the courier's.
 *
 * The sum of a host, and of 2^k hosts, is a node of the tree, so the order of sums is that of a
 * single rank.
 *
 * Threads: the session's thread lists transfers, any worker adds. */
#ifndef HD_RUNTIME_ENGINE_COLLECTIVE_COLLECTIVE_INTERNAL_H
#define HD_RUNTIME_ENGINE_COLLECTIVE_COLLECTIVE_INTERNAL_H

#include "runtime/engine/submit_internal.h"

enum hd_message_step { HD_MESSAGE_WHOLE, HD_MESSAGE_SCATTER, HD_MESSAGE_GATHER };

enum hd_message_way { HD_MESSAGE_ALL, HD_MESSAGE_SLICES, HD_MESSAGE_PAIRS };

/* Returns whether a broadcast sends the vector of the value's reduction and not its bytes: types
 * that can be combined and are not flat. */
static inline bool hd_collective_is_packed(const struct hd_collective *c)
{
    return c->in_spec->type->reduction && !c->in_spec->type->flat;
}

/* Chooses the way in which c goes: whole from each to all, in slices, or by pairs. Equal on all
 * ranks. */
enum hd_message_way hd_message_choose(const struct hd_session_options *options,
                                      const struct hd_collective *c);

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

/* Returns whether this rank is its host's courier, and the number of rounds by pairs. */
bool hd_message_is_courier(const struct hd_comm *comm);
int hd_message_count_rounds(const struct hd_comm *comm);

/* Returns the courier of the host with which this one's is paired in round k. */
int hd_message_get_pair(const struct hd_comm *comm, int k);

/* Completes *point, whose sequence is set, by the transfers of c in `step`: none where there is one
 * host. The point owns them. Returns HD_OK or HD_ERR_NOMEM. */
int hd_message_list_transfers(struct hd_comm *comm, const struct hd_collective *c,
                              enum hd_message_step step, struct hd_sync_point *point);

#endif
