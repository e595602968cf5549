/* SPDX-License-Identifier: Apache-2.0 */
/* This is the state of links over TCP. A message is its header, its content and, if wanted, a hash.
 * Both directions of a connection have a queue of the messages that were started, and the state of
 * the first of them. One thread at a time. */
#pragma once

#include "runtime/comm/comm_tcp.h"
#include "runtime/ranks/wire.h"

#include <sodium.h>
#include <sys/socket.h>

enum { HD_TCP_HASH = 32 };

struct hd_tcp_header {
    int64_t bytes; /* of the content */
    int64_t tag;
};

struct hd_tcp_message {
    int rank;
    bool out, done;
    char *data;
    int64_t bytes, tag;
    int next; /* in its queue; -1: none */
};

struct hd_tcp_queue {
    int first, last;             /* messages; first -1: none */
    int64_t used;                /* bytes of the first one that have been transferred */
    int least;                   /* bytes that wake the reader */
    struct hd_tcp_header header; /* of the first one */
    struct hd_wire_key key;      /* of hashes, and how many there were */
    crypto_generichash_state state;
    uint8_t hash[HD_TCP_HASH], own[HD_TCP_HASH]; /* that is transferred; of what came in */
};

struct hd_tcp_peer {
    int fd; /* -1: no partner */
    struct hd_tcp_queue in, out;
    struct sockaddr_storage here; /* the address of this end of the connection */
};

struct hd_tcp_links {
    struct hd_links links;
    int ranks;
    bool hash;
    struct hd_tcp_peer *peers; /* [ranks] */
    struct hd_tcp_message *messages;
    int n;
    int64_t capacity;
    int64_t looked_ns; /* when the interfaces were last looked at */
    int lost;          /* rank to which the connection failed; -1: none */
    char error[HD_LINKS_TEXT];
};

/* Connects the links of all channels to this rank's partners. Returns HD_OK or the errors of
 * hd_tcp_open_links. */
int hd_tcp_join(struct hd_links *const *links, int channels, const struct hd_world *world,
                const struct hd_comm_hosts *hosts, struct hd_rendezvous *rendezvous,
                const struct hd_tcp_options *options);
