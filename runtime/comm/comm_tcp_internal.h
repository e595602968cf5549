/* SPDX-License-Identifier: Apache-2.0 */
/* The state that comm_tcp.c (messages) and comm_tcp_connect.c (connections) share. One thread at a
 * time. */
#ifndef HD_RUNTIME_COMM_COMM_TCP_INTERNAL_H
#define HD_RUNTIME_COMM_COMM_TCP_INTERNAL_H

#include "runtime/comm/comm_links.h"

/* Precedes every message. */
struct hd_tcp_header {
    int64_t bytes;
    int32_t tag, reserved;
};

/* The messages of one direction between this rank and a peer, in order. */
struct hd_tcp_queue {
    int first, last; /* numbers of messages; -1: none */
    struct hd_tcp_header header;
    int64_t used; /* bytes of the first message, header included, that are done */
};

struct hd_tcp_peer {
    int fd; /* -1: none */
    struct hd_tcp_queue in, out;
};

struct hd_tcp_message {
    void *data;
    int64_t bytes;
    int tag, next; /* in its queue */
    bool done;
};

struct hd_tcp_links {
    struct hd_links links;
    int rank, ranks;
    struct hd_tcp_peer *peers; /* [ranks] */
    struct hd_tcp_message *messages;
    int64_t capacity;
    int n;
    char error[HD_LINKS_TEXT];
};

/* Connects *links, whose ranks are set, to all peers. Returns HD_OK, or HD_ERR_SYSTEM (not logged)
 * with a sentence in links->error. */
int hd_tcp_connect_ranks(struct hd_tcp_links *links, const struct hd_world *world,
                         struct hd_rendezvous *rendezvous, int listen_fd);

#endif
