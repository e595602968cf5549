/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between hosts send vectors, each from a rank to its partners (comm.h), in one of
 * these ways: all     Short vectors go whole to everybody, and every rank adds them. slices  A long
 * vector of floats is added in steps, by which every host sends 2 (H - 1) / H of a vector in all:
 *           1. Where a host has several ranks: they wait for each other (a sync point on the host),
 *              and each adds the host's vectors in the slices of its number (halving.h).
 *           2. Partners send each other these sums (reduce-scatter), and each adds the hosts' sums
 *              of its slice.
 *           3. Partners send each other the sums (all-gather), to where all ranks of their host
 *              read them.
 *   pairs   Among many hosts a short vector goes by pairs, in log2 H rounds of one message of each
 *           host (recursive doubling, Thakur, Rabenseifner and Gropp 2005): the first rank of each
 *           host, its courier, adds the host's vectors; in round k the couriers of hosts h and
 *           h xor 2^k send each other their sums, and both add them, that of the lower host first;
 *           then the ranks of the host read the courier's.
 *   halves  Among many hosts a long vector of floats is added as in slices, but steps 2 and 3 are
 *           log2 H rounds each, in which pairs exchange halves (halving.h). Then the ranks of the
 *           host wait for each other and read the sum.
 *
 * The sum of a host, and of 2^k hosts, is a node of the tree, so the order of sums is that of a
 * single rank.
 *
 * Threads: the session's thread submits and lists transfers, any worker adds. */
#pragma once

#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/submit_internal.h"

enum hd_message_step { HD_MESSAGE_WHOLE, HD_MESSAGE_SCATTER, HD_MESSAGE_GATHER };

enum hd_message_way { HD_MESSAGE_ALL, HD_MESSAGE_SLICES, HD_MESSAGE_PAIRS, HD_MESSAGE_HALVES };

/* A copy of a submitted collective; its last task frees it. */
struct hd_collective_round {
    struct hd_session *session;
    struct hd_session_channel *channel; /* NULL: a single rank */
    struct hd_collective collective;
    int64_t sequence; /* 0: a single rank */
    enum hd_message_way way;
    /* All ways but `all` have these: the first number at which hosts exchange sums, and that of
     * hd_round_get_sum for the unpacking. */
    int64_t exchange, sum;
    struct hd_device_collective device_collective; /* between GPUs */
    void *memory[]; /* of the instances that it reads, then of its output, then of residuals */
};

/* Returns whether a broadcast sends the vector of the value's reduction and not its bytes: types
 * that can be combined and are not flat. */
static inline bool hd_collective_is_packed(const struct hd_collective *c)
{
    return c->in_spec->type->reduction && !c->in_spec->type->flat;
}

/* Choose the way in which c goes among several hosts, and a bucket of a sharded update of so many
 * bytes: slices or halves. Equal on all ranks (collective_choice.c). */
enum hd_message_way hd_message_choose(const struct hd_session_options *options,
                                      const struct hd_collective *c);
enum hd_message_way hd_message_choose_update(const struct hd_session_options *options,
                                             double bytes);

/* Returns the bytes of a unit in which a vector may be cut in slices. */
int64_t hd_message_get_unit_bytes(const struct hd_collective *c);

/* Returns a task of the collective that goes through so many vectors, as operands and as its
 * result. */
struct hd_task hd_round_make_task(const struct hd_collective_round *round, hd_body *body,
                                  double vectors);

/* Submits it; it reads the inputs, writes the output, is the last one. Returns HD_OK or what
 * hd_submit_task returns. */
int hd_round_submit_task(struct hd_collective_round *round, struct hd_task task, bool reads,
                         bool writes, bool last);

/* Submits a sync point of the collective, which says its sequence and what is special. Returns
 * HD_OK or what hd_submit_sync returns. */
int hd_round_submit_point(const struct hd_collective_round *round, struct hd_sync_point point);

/* Submits what comes between packing and unpacking. Returns HD_OK, or HD_ERR_NOMEM or
 * HD_ERR_SYSTEM (logged) (collective_hosts.c). */
int hd_round_submit_steps(struct hd_collective_round *round);

/* Add this rank's instances, and the packed vectors of ranks [first, first + ranks), in tree order.
 * levels: memory for a vector for every level of the tree; top: where the root's goes. They return
 * where the sum is: at `top` or where the only vector is. */
const void *hd_round_add_instances(const struct hd_collective_round *round, void *levels,
                                   void *top);
const void *hd_round_add_ranks(const struct hd_collective_round *round, int first, int ranks,
                               void *levels, void *top);

/* Returns the sum of the weights of a bucket over all partials of n instances, in tree order
 * (weights.c). */
float hd_weights_add(const struct hd_spec *spec, int bucket, const void *const *instances,
                     int64_t n);

/* -- Vectors that are rounded (rounded.c) ------------------------------------------------------ */

/* Returns their bytes, and those of a unit, which no slice divides: a block. */
int64_t hd_rounded_get_vector_bytes(const struct hd_collective *c);
int64_t hd_rounded_get_unit_bytes(const struct hd_collective *c);

/* Returns the bytes of scratch that the following need, of which they leave those of a vector and
 * of a pointer for each rank to their callers. */
int64_t hd_rounded_get_scratch_bytes(const struct hd_collective *c, int ranks);

/* Add this rank's instances, or bytes [lo, hi) of n packed vectors, whole units, into the same
 * place of the vector `to`, which may be the first of them. */
void hd_rounded_add_instances(const struct hd_collective_round *round, void *scratch, void *to);
void hd_rounded_add(const struct hd_collective_round *round, int n, const void *const *vectors,
                    int64_t lo, int64_t hi, void *scratch, void *to);

/* Stores the mean that a packed sum stands for in the output. */
void hd_rounded_unpack(const struct hd_collective_round *round, const void *vector, void *scratch);

/* Returns the transport's buffer of `rank` for a number of the channel. */
static inline void *hd_round_get_buffer(const struct hd_collective_round *round, int rank,
                                        int64_t sequence)
{
    return hd_channel_get_buffer(round->channel->channel, rank, sequence);
}

/* Returns the memory that all ranks of this host have for the sum of a number. */
static inline void *hd_round_get_sum(const struct hd_collective_round *round, int64_t sequence)
{
    return hd_round_get_buffer(round, hd_comm_get_first_rank(round->session->options.comm),
                               sequence);
}
