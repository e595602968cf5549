/* SPDX-License-Identifier: Apache-2.0 */
/* The memory behind a communicator, the same whether private (comm_self.c) or shared (comm_shm.c).
 *
 * Segment: head; one hd_comm_line per rank; then rank 0's two buffers, rank 1's two, …; then rank
 * 0's area, rank 1's, … Everything that different ranks write lies at least two cache lines apart
 * (adjacent-line prefetch), buffers start on pages and areas on huge pages, so that a page's first
 * writer, its rank, decides its NUMA node. */
#ifndef HD_RUNTIME_COMM_COMM_SEGMENT_H
#define HD_RUNTIME_COMM_COMM_SEGMENT_H

#include "runtime/comm/comm.h"

#include <stdalign.h>
#include <stdatomic.h>

enum { HD_COMM_SPACING = 128, HD_COMM_PAGE = 4096, HD_COMM_HUGE_PAGE = 1 << 21 };

/* Written by its rank alone. */
struct hd_comm_line {
    alignas(HD_COMM_SPACING) atomic_int_fast64_t arrived;
    /* The rest describes `arrived` to people: valid when `version` is even and did not change while
     * it was read (a sequence lock). */
    alignas(HD_COMM_SPACING) atomic_uint_fast64_t version;
    atomic_int_fast64_t seq, since_ns;
    atomic_uint_fast64_t name[HD_COMM_NAME / 8];
};

enum hd_comm_abort { HD_COMM_OK, HD_COMM_ABORTING, HD_COMM_ABORTED };

struct hd_comm_header {
    uint64_t token;                            /* of this segment, to tell it from any other file */
    alignas(HD_COMM_SPACING) atomic_int abort; /* enum hd_comm_abort */
    int abort_rank;                            /* these two: once HD_COMM_ABORTED */
    char abort_text[HD_RENDEZVOUS_TEXT];
    struct hd_comm_line lines[]; /* [world] */
};

struct hd_comm {
    int rank, world;
    struct hd_comm_header *header;
    char *buffers;        /* [world][2][buffer_bytes] */
    char *areas;          /* [world][area_bytes] */
    int64_t buffer_bytes; /* max_bytes rounded up to pages */
    int64_t area_bytes;   /* rounded up to huge pages */
    int64_t segment_bytes;
    void (*release)(struct hd_comm *comm);      /* of the segment */
    struct hd_message_passing *message_passing; /* or NULL: the segment is all ranks' */
};

/* Fills in sizes; HD_ERR_INPUT (logged) when they overflow. */
int hd_comm_set_sizes(struct hd_comm *comm, int64_t max_bytes, int64_t area_bytes);

/* Maps a zeroed segment of comm->segment_bytes (fd -1: private memory), aligned to huge pages.
 * Errors: HD_ERR_SYSTEM, silently, with errno set. */
int hd_comm_map(struct hd_comm *comm, int fd, void **segment_p);

/* Takes it into use. */
void hd_comm_attach(struct hd_comm *comm, void *segment, void (*release)(struct hd_comm *comm));

/* Touches this rank's area first, and asks for huge pages under it: kernels seldom give them to
 * shared memory by themselves. */
void hd_comm_touch_area(struct hd_comm *comm);

/* Rank `rank` has reached seq, in `name`, just now. */
void hd_comm_record_arrival(struct hd_comm *comm, int rank, int64_t seq, const char *name);

/* comm_message.c: what is transferred and how far it is. */
void hd_comm_message_post(struct hd_comm *comm, int64_t seq, const char *name,
                          const struct hd_comm_transfer *transfers, int n);
void hd_comm_message_progress(struct hd_comm *comm);
void hd_comm_message_close(struct hd_comm *comm);

/* Whether a message of `rank` is waiting for the number after this rank's last, *seq_p. */
bool hd_comm_message_is_ahead(struct hd_comm *comm, int rank, int64_t *seq_p);

/* The kinds of memory. comm->rank, world and the sizes are set before. */
int hd_comm_self_open(struct hd_comm *comm);
int hd_comm_shm_open(struct hd_comm *comm, struct hd_rendezvous *rendezvous);
int hd_comm_message_open(struct hd_comm *comm, struct hd_links *links);

#endif
