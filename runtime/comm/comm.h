/* SPDX-License-Identifier: Apache-2.0 */
/* Transport between ranks: numbered sync points over buffers that all ranks can read, or, where
 * their memory is apart, that messages fill.
 *
 * Collectives are numbered 1, 2, 3, … in one order on all ranks. For number `seq` a rank
 *   1. writes its payload into hd_comm_get_buffer(comm, own rank, seq),
 *   2. arrives at seq,
 *   3. when all have arrived (hd_comm_test), reads hd_comm_get_buffer(comm, r, seq) of every rank
 * r,
 *   4. only then starts with 1. for seq + 1.
 * Every rank has two buffers, used alternately: whoever writes for seq + 2 has seen everybody
 * arrive at seq + 1, hence everybody has read seq. A collective of two phases (reduce-scatter,
 * all-gather) takes two numbers.
 *
 * Where memory is apart (several hosts), every rank has room for all ranks' buffers and areas at
 * the same places, and in it what was sent: a sync point carries transfers, what this rank sends to
 * others and receives from them, and is passed when all of them are over too. Of the memory of
 * other ranks, only what transfers have brought is valid.
 *
 * Threads: any thread may make these calls, except that steps 1-4 of one communicator follow one
 * another (an executor orders them by a token) and destroy comes last. */
#ifndef HD_RUNTIME_COMM_COMM_H
#define HD_RUNTIME_COMM_COMM_H

#include "runtime/ranks/rendezvous.h"

#include <stddef.h>

enum { HD_COMM_NAME = 64 }; /* bytes of a name in reports, with its zero */

struct hd_comm;
struct hd_links;

/* Bytes on their way at a sync point: to `rank`, or from it. */
struct hd_comm_transfer {
    int rank;
    bool out;
    void *data; /* stays as it is, or is written by nobody else, until the sync point is passed */
    int64_t bytes;
};

/* A communicator of all ranks with buffers of max_bytes each (> 0) and an area of area_bytes for
 * every rank (>= 0; both the same on all ranks). Shared memory of one host; a world of one rank
 * uses private memory and initialises nothing. Called between hd_rendezvous_create and
 * hd_rendezvous_watch, on all ranks in one order (it broadcasts). The memory has no name in any
 * file system, so nothing can be left behind. Errors: HD_ERR_SYSTEM, HD_ERR_NOMEM, those of
 * hd_rendezvous_broadcast (logged). */
int hd_comm_create(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                   int64_t max_bytes, int64_t area_bytes, struct hd_comm **comm_p);
void hd_comm_destroy(struct hd_comm *comm);

/* The same where memory is apart, over `links`, which it takes over, also on failure. Errors:
 * HD_ERR_NOMEM, HD_ERR_INPUT (logged). */
int hd_comm_create_message_passing(const struct hd_world *world, struct hd_links *links,
                                   int64_t max_bytes, int64_t area_bytes, struct hd_comm **comm_p);

/* Whether sync points have to carry what others are to see. */
bool hd_comm_is_message_passing(const struct hd_comm *comm);

/* This rank, and how many there are. */
int hd_comm_get_rank(const struct hd_comm *comm);
int hd_comm_count_ranks(const struct hd_comm *comm);

/* The buffer of `rank` for number seq: max_bytes, 64-byte aligned, on cache lines of its own. See
 * above for who may touch it when. */
void *hd_comm_get_buffer(struct hd_comm *comm, int rank, int64_t seq);

/* The area of `rank`: zeroed at first, on pages of its own. Who may touch what when is for sync
 * points to say. */
char *hd_comm_get_area(struct hd_comm *comm, int rank);

/* Publishes what was written for seq and that this rank waits in `name`. Never blocks, makes no
 * system call that could (a few stores). */
void hd_comm_arrive(struct hd_comm *comm, int64_t seq, const char *name);

/* The same with transfers[n], read during the call; without effect where memory is shared. What
 * rank a sends to b in one sync point, b receives from a there, in the same order and sizes. Only
 * starts the transfers; hd_comm_test drives them on. */
void hd_comm_post(struct hd_comm *comm, int64_t seq, const char *name,
                  const struct hd_comm_transfer *transfers, int n);

/* Whether all ranks have arrived at seq; true makes their buffers visible to the caller. */
bool hd_comm_test(struct hd_comm *comm, int64_t seq);

/* Waits for seq: spins, then yields, then naps, so that ranks that share a core progress.
 * timeout_ns 0: no limit. `cancelled` (may be NULL) is asked between polls. Returns HD_OK;
 * HD_ERR_WATCHDOG after timeout_ns (logged with hd_comm_report); HD_ERR_PEER when the communicator
 * was aborted; HD_ERR_STOPPED when cancelled (both silently: the cause is known to whoever aborted
 * or cancelled). */
int hd_comm_wait(struct hd_comm *comm, int64_t seq, int64_t timeout_ns,
                 bool (*cancelled)(void *arg), void *arg);

/* Why a communicator was aborted. */
struct hd_comm_failure {
    int rank;         /* that failed */
    int status;       /* with which it failed; HD_ERR_PEER: it died or does not answer */
    const char *text; /* a sentence that names the rank; borrowed until destroy */
};

/* Ends all waiting: on all ranks, under message passing on this one alone. The first call of all
 * counts. */
void hd_comm_abort(struct hd_comm *comm, const struct hd_comm_failure *failure);

/* Returns whether any rank aborted. The second then stores why; while the aborting rank still
 * writes it, the rank is -1, the status HD_ERR_PEER and the text "". */
bool hd_comm_is_aborted(struct hd_comm *comm);
bool hd_comm_get_failure(struct hd_comm *comm, struct hd_comm_failure *failure_p);

/* The last number at which `rank` arrived (0: none yet), its name, and hd_clock_get_ns() then. */
void hd_comm_get_status(struct hd_comm *comm, int rank, int64_t *seq_p, char name_p[HD_COMM_NAME],
                        int64_t *since_ns_p);

/* Before a report: where memory is apart, finds out who waits in a number that this rank has not
 * reached. Not after a rank was lost, which would end some MPIs. */
void hd_comm_probe(struct hd_comm *comm);

/* One line for hang reports: "rank 1 waits in #412 mean(grad) since 31 s; rank 0 last finished #411
 * sum(counts) 31 s ago". */
void hd_comm_report(struct hd_comm *comm, char *text, size_t bytes);

#endif
