/* SPDX-License-Identifier: Apache-2.0 */
/* State and helpers that the files of the rendezvous share. hd_rendezvous.lock guards sending and
 * last_status; the watching thread alone reads the sockets once it runs. */
#ifndef HD_RUNTIME_RANKS_RENDEZVOUS_INTERNAL_H
#define HD_RUNTIME_RANKS_RENDEZVOUS_INTERNAL_H

#include "runtime/base/clock.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/ranks/wire.h"

#include <pthread.h>
#include <stdatomic.h>

/* A connection. Rank 0 has one to every rank, the others have one to rank 0. */
struct hd_peer {
    int fd; /* -1: none, or closed */
    struct hd_hello hello;
    struct hd_frame_reader reader;
    int64_t last_heard_ns;                    /* when its newest frame came */
    char last_status[HD_RENDEZVOUS_TEXT / 2]; /* the text of its newest heartbeat */
    void *message;                            /* parts of a message, [message_bytes] */
    int64_t message_bytes, message_capacity;
};

struct hd_rendezvous {
    struct hd_world world;
    int64_t timeout_ns;
    struct hd_peer *peers; /* [world]: rank 0; else only peers[0] is used */
    pthread_mutex_t lock;
    atomic_bool failed; /* this rank has announced its failure */
    bool watching;
    pthread_t watcher;
    int wake_fd;   /* an eventfd that ends the watcher */
    int listen_fd; /* rank 0: open to the end, so that a late rank is turned away at once */
    struct hd_rendezvous_watch_options options;
    int64_t heartbeat_ns; /* when the watcher last sent heartbeats */
};

/* Returns the time `ms` milliseconds from now. */
static inline int64_t hd_rendezvous_get_deadline_ns(int64_t ms)
{
    return hd_clock_get_ns() + ms * 1000000;
}

/* Logs an error that several ranks know: under a launcher of ours once a host, else on every rank.
 * Returns `status`. */
int hd_rendezvous_report(const struct hd_rendezvous *rendezvous, int status, const char *text);

/* Sends a frame of rank 0 to all other ranks. Returns the first rank that it did not reach, or 0:
 * no status; errors are not logged. */
int hd_rendezvous_send_all(struct hd_rendezvous *rendezvous, enum hd_wire_kind kind, int number,
                           const void *payload, size_t bytes);

/* Adds the part of a message in the reader of rank `rank`, and hands on a message that is whole.
 * Returns false when it is too long, or there is no memory for it. */
bool hd_rendezvous_receive_part(struct hd_rendezvous *rendezvous, int rank);

/* Connects to rank 0, again and again until deadline_ns. Returns HD_OK or HD_ERR_SYSTEM (logged).
 */
int hd_rendezvous_connect(const struct hd_world *world, int64_t deadline_ns, int *fd_p);

/* Makes TCP notice within half a minute that the peer's host vanished, and send without delay. */
void hd_rendezvous_set_keepalive(int fd);

/* Rank 0: accepts connections on rendezvous->listen_fd until all ranks have sent their hello,
 * stores them in rendezvous->peers and checks that the ranks fit together. Returns HD_OK, or a
 * status whose sentence is in text[HD_RENDEZVOUS_TEXT], not logged; it has told all ranks that
 * connected. */
int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text);

#endif
