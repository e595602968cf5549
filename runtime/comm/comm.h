/* SPDX-License-Identifier: Apache-2.0 */
/* Transport between ranks: numbered sync points over buffers. On one host all ranks read the
 * buffers in shared memory; between hosts messages carry them.
 *
 * A communicator has channels, each with numbers and buffers of its own. What happens on one never
 * waits for another. On a channel, collectives are numbered 1, 2, 3, … in one order on all ranks.
 * For number `seq` a rank
 *   1. writes its payload into hd_channel_get_buffer(channel, own rank, seq),
 *   2. arrives at seq,
 *   3. when all have arrived (hd_channel_test), reads every rank r's
 *      hd_channel_get_buffer(channel, r, seq),
 *   4. only then starts with 1. for seq + 1.
 * Every rank has two buffers on a channel, used alternately: whoever writes for seq + 2 has seen
 * everybody arrive at seq + 1, hence everybody has read seq. A collective of two phases
 * (reduce-scatter, all-gather) takes two numbers.
 *
 * Under message passing the ranks of a host share memory for all ranks' buffers and areas, at the
 * same offsets on every host. A rank has one partner on every other host, the rank with its own
 * number there, and exchanges messages with its partners alone: what it receives, the other ranks
 * of its host see. A sync point carries transfers, data that this rank sends to its partners and
 * receives from them, and is passed when those of all ranks of the host have ended, too. Only data
 * that transfers have brought are valid in the memory of ranks of other hosts.
 *
 * Threads: any thread may make these calls, except that steps 1-4 of one channel follow one
 * another (an executor orders them by a token) and destroy comes last. */
#pragma once

#include "runtime/ranks/rendezvous.h"

#include <stddef.h>

enum {
    HD_COMM_NAME = 64, /* bytes of a name in reports, with its zero */
    HD_CHANNELS_MAX = 32
};

struct hd_comm;
struct hd_channel;
struct hd_links;

/* The memory of a communicator, the same on all ranks. */
struct hd_comm_sizes {
    int channels;         /* 1 … HD_CHANNELS_MAX */
    int64_t buffer_bytes; /* > 0: of each of the two buffers that a rank has on a channel */
    int64_t area_bytes;   /* >= 0: of the area of a rank */
};

/* This says which ranks share memory: `ranks` on each of `n` hosts, in order. */
struct hd_comm_hosts {
    int n, ranks;
};

/* Bytes that travel at a sync point, to `rank` or from it. */
struct hd_comm_transfer {
    int rank;
    bool out;
    void *data; /* until the sync point is passed, nobody writes data that are sent, and nobody
                   touches the memory of data that are received */
    int64_t bytes;
};

/* Creates a communicator of all ranks in shared memory of one host; a world of one rank uses
 * private memory and initialises nothing. Called between hd_rendezvous_create and
 * hd_rendezvous_watch, on all ranks in one order (it broadcasts). The memory has no name in any
 * file system, so nothing can be left behind. Released by hd_comm_destroy (accepts NULL). Returns
 * HD_OK, HD_ERR_INPUT, HD_ERR_SYSTEM, HD_ERR_NOMEM, or the errors of hd_rendezvous_broadcast
 * (logged). */
int hd_comm_create(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                   const struct hd_comm_sizes *sizes, struct hd_comm **comm_p);
void hd_comm_destroy(struct hd_comm *comm);

/* Finds out, by trying, which ranks share memory, and calls those a host, if all hosts have as
 * many, in order, and a host's ranks are a node of the tree (tree.h); else every rank counts as a
 * host of its own. within_nodes: only ranks of one node of their launcher may share memory. All
 * ranks call it in one order (it gathers). Returns HD_OK, or the errors of
 * hd_rendezvous_gather_all. */
int hd_comm_find_hosts(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                       bool within_nodes, struct hd_comm_hosts *hosts_p);

/* Creates a communicator that passes the messages of channel i over links[i]; it takes all of them
 * over, also on failure. Where `hosts` says that ranks share a host, they share its memory, and all
 * ranks call it in one order with the rendezvous (it broadcasts); else the rendezvous may be NULL.
 * Returns HD_OK, or the errors of hd_comm_create. */
int hd_comm_create_message_passing(const struct hd_world *world, const struct hd_comm_hosts *hosts,
                                   struct hd_rendezvous *rendezvous, struct hd_links *const *links,
                                   const struct hd_comm_sizes *sizes, struct hd_comm **comm_p);

/* Returns the hosts that hd_comm_find_hosts finds where every node has `ranks` ranks; 0: they
 * differ. */
struct hd_comm_hosts hd_comm_fit_hosts(int world, int ranks);

/* Creates a communicator that knows the places of ranks and of their memory, but is joined to
 * nobody: for those who look at what a rank would send, without sending. Its memory is private to
 * this process and costs nothing until it is touched. Returns HD_OK, or HD_ERR_INPUT or
 * HD_ERR_NOMEM (logged). */
int hd_comm_create_alone(int rank, int world, const struct hd_comm_hosts *hosts,
                         const struct hd_comm_sizes *sizes, struct hd_comm **comm_p);

/* Return this rank, and the number of ranks; this rank's host, the number of hosts, and of the
 * ranks on each, of which host h has those from h * ranks on. They cannot fail. */
int hd_comm_get_rank(const struct hd_comm *comm);
int hd_comm_count_ranks(const struct hd_comm *comm);
int hd_comm_get_host(const struct hd_comm *comm);
int hd_comm_count_hosts(const struct hd_comm *comm);
int hd_comm_count_host_ranks(const struct hd_comm *comm);

/* Returns the first rank of this host. */
int hd_comm_get_first_rank(const struct hd_comm *comm);

/* Return a rank's partner on a host; on its own, itself. */
static inline int hd_comm_find_partner(const struct hd_comm_hosts *hosts, int rank, int host)
{
    return host * hosts->ranks + rank % hosts->ranks;
}
int hd_comm_get_partner(const struct hd_comm *comm, int host);

/* Return channel i, valid until destroy; and how many there are. They cannot fail. */
struct hd_channel *hd_comm_get_channel(struct hd_comm *comm, int i);
int hd_comm_count_channels(const struct hd_comm *comm);

/* Returns the area of `rank`: zeroed at first, on pages of its own. Its users agree by sync points
 * on who may touch which part of it when. */
char *hd_comm_get_area(struct hd_comm *comm, int rank);

/* Returns the buffer of `rank` for number seq: buffer_bytes, 64-byte aligned, on cache lines of its
 * own. The steps above say who may touch it when. */
void *hd_channel_get_buffer(struct hd_channel *channel, int rank, int64_t seq);

/* Publishes the payload written for seq, and for reports that this rank waits in `name`. Never
 * blocks, and makes no system call that could. */
void hd_channel_arrive(struct hd_channel *channel, int64_t seq, const char *name);

/* Arrives at a number that only the ranks of this host wait for: all ranks call it, but nothing is
 * sent. The next number begins when it has been passed. */
void hd_channel_arrive_on_host(struct hd_channel *channel, int64_t seq, const char *name);

/* Arrives and starts transfers[n] with partners, which are read during the call; hd_channel_test
 * drives them on. If rank a sends data to b in a sync point, b receives
 * them from a there, in the same order and sizes. */
void hd_channel_post(struct hd_channel *channel, int64_t seq, const char *name,
                     const struct hd_comm_transfer *transfers, int n);

/* Arrives at a number that this rank passes when transfers[n] with partners have ended: it is sent
 * nothing else, and waits for nobody else. Both ranks of a transfer call it. Transfers of no bytes
 * cost nothing. */
void hd_channel_post_pairs(struct hd_channel *channel, int64_t seq, const char *name,
                           const struct hd_comm_transfer *transfers, int n);

/* Returns whether all ranks have arrived at seq, or all of this host, or the partners' data; true
 * makes their buffers visible to the caller. */
bool hd_channel_test(struct hd_channel *channel, int64_t seq);

/* Waits, for a millisecond at most, until hd_channel_test may find, on any channel, data that have
 * come from other hosts, or can send more, or until wake_fd can be read. Of a transport that cannot
 * tell, naps: waited_ns is how long the caller has waited (hd_nap). */
void hd_comm_wait_for_data(struct hd_comm *comm, int wake_fd, int64_t waited_ns);

/* Waits for seq: spins, then yields, then naps, so that ranks that share a core progress.
 * timeout_ns 0: no limit. `cancelled` (may be NULL) is asked between polls. Returns HD_OK;
 * HD_ERR_WATCHDOG after timeout_ns (logged with hd_comm_report); HD_ERR_PEER when the communicator
 * was aborted; HD_ERR_STOPPED when cancelled (neither is logged: whoever aborted or cancelled
 * knows the cause). */
int hd_channel_wait(struct hd_channel *channel, int64_t seq, int64_t timeout_ns,
                    bool (*cancelled)(void *arg), void *arg);

/* Returns the bytes that all ranks of this host have sent to other hosts; 0 for NULL. */
int64_t hd_comm_count_sent_bytes(struct hd_comm *comm);

/* Why a communicator was aborted. */
struct hd_comm_failure {
    int rank;         /* that failed */
    int status;       /* with which it failed; HD_ERR_PEER: it died or does not answer */
    const char *text; /* a sentence that names the rank; borrowed until destroy */
};

/* Ends all waiting: on all ranks, under message passing on those of this host alone. The first call
 * of all counts: returns whether this is it. */
bool hd_comm_abort(struct hd_comm *comm, const struct hd_comm_failure *failure);

/* Returns whether any rank aborted. The second then stores why. It waits while the aborting rank
 * still writes that; if this takes longer than about 0.2 s, because that rank was killed, the rank
 * is -1, the status HD_ERR_PEER and the text "". */
bool hd_comm_is_aborted(struct hd_comm *comm);
bool hd_comm_get_failure(struct hd_comm *comm, struct hd_comm_failure *failure_p);

/* Stores the last number of the channel at which `rank` arrived (0: none yet), its name, and
 * hd_clock_get_ns() at that time. */
void hd_channel_get_status(struct hd_channel *channel, int rank, int64_t *seq_p,
                           char name_p[HD_COMM_NAME], int64_t *since_ns_p);

/* Finds out, before a report, which ranks wait in numbers that this rank has not reached (message
 * passing only). Not after a rank was lost, which would end some MPIs. */
void hd_comm_probe(struct hd_comm *comm);

/* Writes one line for hang reports, of each channel on which somebody waits: "rank 1 waits in #412
 * mean(grad) since 31 s; rank 0 last finished #411 mean(grad) 31 s ago". Where nobody waits, it
 * tells what each rank finished last. On a channel on which this rank waits for a pair, it tells of
 * that alone. */
void hd_comm_report(struct hd_comm *comm, char *text, size_t bytes);
