/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the rendezvous share. Nobody else includes this. */
#ifndef HD_RUNTIME_RANKS_RENDEZVOUS_INTERNAL_H
#define HD_RUNTIME_RANKS_RENDEZVOUS_INTERNAL_H

#include "runtime/ranks/wire.h"

#include <pthread.h>
#include <stdatomic.h>

/* A connection. Rank 0 has one to every rank, the others have one to rank 0. */
struct hd_peer {
    int fd; /* -1: none, or closed */
    struct hd_hello hello;
    struct hd_frame_reader reader;
    int64_t last_heard_ns;                    /* when it last said something */
    char last_status[HD_RENDEZVOUS_TEXT / 2]; /* where it was then; under the lock */
};

struct hd_rendezvous {
    struct hd_world world;
    int64_t timeout_ns;
    struct hd_peer *peers; /* [world]: rank 0; else only peers[0] is used */
    pthread_mutex_t lock;  /* one sender at a time */
    atomic_bool failed;    /* this rank said that it fails */
    bool watching;
    pthread_t watcher;
    int wake_fd;   /* an eventfd that ends the watcher */
    int listen_fd; /* rank 0: kept to the end, so that who comes too late hears so at once */
    struct hd_rendezvous_watch_options with;
    int64_t heartbeat_ns; /* when the watcher last said that this rank is there */
};

/* Logs an error that several ranks know: once a host under a launcher of ours, else everywhere. */
int hd_rendezvous_report(const struct hd_rendezvous *rendezvous, int status, const char *text);

/* Connects to rank 0, again and again until deadline_ns. Errors: HD_ERR_SYSTEM (logged). */
int hd_rendezvous_connect(const struct hd_world *world, int64_t deadline_ns, int *fd_p);

/* Settings of every connection between ranks, so that a host that vanished is noticed. */
void hd_rendezvous_set_keepalive(int fd);

/* Rank 0: waits on rendezvous->listen_fd until all ranks said hello and stores their connections in
 * rendezvous->peers, then checks that they fit together. Returns HD_OK, or an error whose text is
 * in text[HD_RENDEZVOUS_TEXT], not logged; whoever came has been told then. */
int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text);

#endif
