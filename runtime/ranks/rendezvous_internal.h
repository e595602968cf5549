/* SPDX-License-Identifier: Apache-2.0 */
/* State and helpers that the files of the rendezvous share. hd_rendezvous.lock guards sending and
 * last_status; the watching thread alone reads the sockets once it runs. */
#pragma once

#include "runtime/base/clock.h"
#include "runtime/ranks/handshake.h"
#include "runtime/ranks/patience.h"
#include "runtime/ranks/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HD_LISTENERS_MAX = 8 /* addresses at which rank 0 listens */ };

/* A connection. Rank 0 has one to every rank, the others have one to rank 0. */
struct hd_peer {
    int fd; /* -1: none, or closed */
    struct hd_hello hello;
    struct hd_frame_reader reader;
    struct hd_wire_key out; /* of the frames that are sent */
    int64_t last_heard_ns;  /* when its newest frame came */
    int progress;           /* the count of its newest heartbeat */
    int64_t outage_ns;      /* how long after that its host was out of reach; 0: it was not */
    char last_status[HD_RENDEZVOUS_TEXT / 2]; /* the text of its newest heartbeat */
    void *message;                            /* parts of a message, [message_bytes] */
    int64_t message_bytes, message_capacity;
};

struct hd_rendezvous {
    struct hd_world world;
    uint8_t key[HD_WIRE_KEY]; /* of handshakes */
    int64_t timeout_ns;
    int link_timeout_s;
    struct hd_peer *peers; /* [world]: rank 0; else only peers[0] is used */
    pthread_mutex_t lock;
    atomic_bool failed; /* this rank has told of a failure, its own or that of another */
    bool watching;
    pthread_t watcher;
    int wake_fd;                                   /* an eventfd that ends the watcher */
    int listen_fds[HD_LISTENERS_MAX], n_listening; /* rank 0: open until all have joined */
    struct hd_rendezvous_watch_options options;
    int64_t heartbeat_ns; /* when the watcher last sent heartbeats */
};

/* Returns the time `ms` milliseconds from now. */
static inline int64_t hd_rendezvous_get_deadline_ns(int64_t ms)
{
    return hd_clock_get_ns() + ms * 1000000;
}

/* Sends a frame to a peer. The caller holds the lock once other threads run. Returns false when the
 * peer is gone or does not take it within `ms`. */
static inline bool hd_rendezvous_send(struct hd_peer *peer, enum hd_wire_kind kind, int number,
                                      const void *payload, size_t bytes, int64_t ms)
{
    return hd_wire_send(peer->fd, &peer->out, kind, number, payload, bytes,
                        hd_rendezvous_get_deadline_ns(ms));
}

/* Fills in what this rank says of itself. */
void hd_rendezvous_fill_hello(const struct hd_rendezvous_options *options, struct hd_hello *hello);

/* Names the first key whose values differ in two texts as hd_rendezvous_options.config: "key is 1
 * on rank 3 (host b) and 2 on rank 0 (host a)". The text stays untouched if there is none. */
void hd_rendezvous_describe_difference(const char *mine, const struct hd_hello *me,
                                       const char *theirs, const struct hd_hello *them,
                                       char text[HD_RENDEZVOUS_TEXT / 2]);

/* Logs an error that several ranks know: under a launcher of ours once a host, else on every rank.
 * Returns `status`. */
int hd_rendezvous_report(const struct hd_rendezvous *rendezvous, int status, const char *text);

/* Sends a frame of rank 0 to all other ranks. Returns the first rank that it did not reach, or 0:
 * no status; errors are not logged. */
int hd_rendezvous_send_all(struct hd_rendezvous *rendezvous, enum hd_wire_kind kind, int number,
                           const void *payload, size_t bytes);

/* Waits for rank 0's next frame, until deadline_ns. Returns HD_OK with the frame in the reader of
 * peers[0], HD_ERR_PEER when any rank is lost, HD_ERR_SYSTEM when none comes (both logged), or the
 * status of rank 0's refusal. */
int hd_rendezvous_receive_from_root(struct hd_rendezvous *rendezvous, int64_t deadline_ns);

/* Adds the part of a message in the reader of rank `rank`, and hands on a message that is whole.
 * Returns false when it is too long, or there is no memory for it. */
bool hd_rendezvous_receive_part(struct hd_rendezvous *rendezvous, int rank);

/* Rank 0 listens at listen_fds[0]: opens sockets at the other addresses of this host that
 * master_addr names, since ranks may know one of them alone. Returns HD_OK, or HD_ERR_SYSTEM
 * (logged). */
int hd_rendezvous_listen_beside(struct hd_rendezvous *rendezvous);

/* Another rank connects to rank 0 and says hello, again and again until rank 0 welcomes it. Returns
 * HD_OK or HD_ERR_SYSTEM (logged). */
int hd_rendezvous_reach_root(struct hd_rendezvous *rendezvous,
                             const struct hd_rendezvous_options *options);

/* Rank 0: accepts connections on rendezvous->listen_fds until all ranks have sent their hello,
 * stores them in rendezvous->peers and checks that the ranks fit together. Returns HD_OK, or a
 * status whose sentence is in text[HD_RENDEZVOUS_TEXT], not logged; it has told all ranks that
 * connected. */
int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text);
