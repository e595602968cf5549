/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's memory and the table of operations that its kinds fill in: comm_segment.c (one
 * rank), comm_shm.c (ranks of a host), comm_message.c (ranks that send each other messages).
 *
 * The memory is one segment: a header; for each channel one hd_comm_line per rank; for each channel
 * rank 0's two buffers, rank 1's two, …; then rank 0's area, rank 1's, … Everything that different
 * ranks write lies at least two cache lines apart (adjacent-line prefetch). Buffers start on pages
 * and areas on huge pages, so that the first writer of a page, its rank, decides its NUMA node.
 *
 * Threads: one thread opens and closes a communicator; any thread makes the other calls. */
#pragma once

#include "runtime/comm/comm.h"

#include <stdalign.h>
#include <stdatomic.h>

enum { HD_COMM_SPACING = 128, HD_COMM_PAGE = 4096, HD_COMM_HUGE_PAGE = 1 << 21 };

/* Only its rank writes it, or, under message passing, this rank on behalf of the other. */
struct hd_comm_line {
    alignas(HD_COMM_SPACING) atomic_int_fast64_t arrived;
    /* The rest describes `arrived` to people. It is valid when `version` is even and did not change
     * while it was read (a sequence lock). */
    alignas(HD_COMM_SPACING) atomic_uint_fast64_t version;
    atomic_int_fast64_t seq, since_ns;
    atomic_uint_fast64_t name[HD_COMM_NAME / 8];
};

enum hd_comm_abort { HD_COMM_OK, HD_COMM_ABORTING, HD_COMM_ABORTED };

struct hd_comm_header {
    alignas(HD_COMM_SPACING) atomic_int abort; /* enum hd_comm_abort */
    int abort_rank, abort_status;              /* valid, with the text, once HD_COMM_ABORTED */
    char abort_text[HD_RENDEZVOUS_TEXT];
    alignas(HD_COMM_SPACING) atomic_int_fast64_t sent_bytes; /* to other hosts, by all ranks */
    struct hd_comm_line lines[];                             /* [channels][world] */
};

struct hd_comm_ops {
    /* Starts transfers[n] of sync point seq, at which this rank has arrived. */
    void (*post)(struct hd_channel *channel, int64_t seq, const char *name,
                 const struct hd_comm_transfer *transfers, int n);
    /* Start transfers[n] of sync point seq and nothing else, and return whether they have ended. */
    void (*post_pairs)(struct hd_channel *channel, int64_t seq, const char *name,
                       const struct hd_comm_transfer *transfers, int n);
    bool (*test_pairs)(struct hd_channel *channel, int64_t seq);
    /* Drives transfers on and records the arrivals of other ranks. */
    void (*progress)(struct hd_channel *channel);
    /* Does hd_comm_wait_for_data. */
    void (*wait_for_data)(struct hd_comm *comm, int wake_fd, int64_t waited_ns);
    /* Returns whether the pairs' number seq has not ended because of `rank`. */
    bool (*is_awaited)(struct hd_channel *channel, int rank, int64_t seq);
    /* Returns whether a message of `rank` waits for the number after this rank's last, *seq_p. */
    bool (*is_ahead)(struct hd_channel *channel, int rank, int64_t *seq_p);
    /* Releases all but *comm itself. */
    void (*close)(struct hd_comm *comm);
};

struct hd_channel {
    struct hd_comm *comm;
    struct hd_comm_line *lines;           /* [world] */
    char *buffers;                        /* [world][2][buffer_bytes] */
    atomic_int_fast64_t on_host;          /* the last number for this host alone */
    atomic_int_fast64_t pairs;            /* the last number for pairs of partners */
    struct hd_channel_messages *messages; /* under message passing (comm_message.c) */
};

struct hd_comm {
    const struct hd_comm_ops *ops;
    int rank, world;
    struct hd_comm_hosts hosts;
    struct hd_comm_header *header;
    char *areas;          /* [world][area_bytes] */
    int64_t buffer_bytes; /* rounded up to pages */
    int64_t area_bytes;   /* rounded up to huge pages */
    int64_t segment_bytes;
    struct hd_message_passing *message_passing; /* what the channels have in common of it */
    int n_channels;
    struct hd_channel channels[HD_CHANNELS_MAX];
};

/* Fills in the sizes. Returns HD_OK, or HD_ERR_INPUT (logged) when they overflow. */
int hd_comm_set_sizes(struct hd_comm *comm, const struct hd_comm_sizes *sizes);

/* Where a file in memory is that a rank of this user may open, if it has the same process ids. */
struct hd_comm_file {
    int32_t pid, fd; /* fd -1: there is none */
    uint64_t token;  /* which its name tells */
};

/* Makes an empty file, to be found by *file_p. Returns its descriptor, owned by the caller; or -1,
 * no status, with errno set. */
int hd_comm_file_create(struct hd_comm_file *file_p);

/* Opens another rank's file. Returns a descriptor, owned by the caller; or -1, no status, with
 * errno set, where this rank cannot open it. Never waits. */
int hd_comm_file_open(const struct hd_comm_file *file);

/* Maps a zeroed segment of comm->segment_bytes (fd -1: private memory), aligned to huge pages, and
 * takes it into use with the operations of memory that all ranks see. Returns HD_OK, or
 * HD_ERR_SYSTEM (not logged) with errno set. */
int hd_comm_map(struct hd_comm *comm, int fd);
void hd_comm_unmap(struct hd_comm *comm);

/* Touches this rank's area first, and asks for huge pages under it: kernels seldom give them to
 * shared memory by themselves. */
void hd_comm_touch_area(struct hd_comm *comm);

/* Records that rank `rank` has reached seq, called `name`, just now. */
void hd_channel_record_arrival(struct hd_channel *channel, int rank, int64_t seq, const char *name);

/* Open a communicator whose rank, world, hosts and sizes are set. The last one takes over links[]
 * of the channels, also on failure. They return HD_OK, or a status (logged): HD_ERR_NOMEM,
 * HD_ERR_SYSTEM, and those of hd_rendezvous_broadcast. */
int hd_comm_self_open(struct hd_comm *comm);
int hd_comm_shm_open(struct hd_comm *comm, struct hd_rendezvous *rendezvous);
int hd_comm_message_open(struct hd_comm *comm, struct hd_rendezvous *rendezvous,
                         struct hd_links *const *links);
