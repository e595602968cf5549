/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that have not said hello yet. Whoever listens accepts them, sends each a challenge
 * and reads their hellos, and never waits for a single one: silent connections are bounded in
 * number, the oldest makes room for a new one, and another user of this host is dropped at once.
 * Whoever is dropped is counted, and the first is told of. One thread. */
#pragma once

#include "runtime/ranks/handshake.h"

enum { HD_PENDING_MAX = 256 };

struct hd_pending {
    int fd;
    bool greeted; /* its hello was read, and it is kept to hear why it is refused */
    struct hd_frame_reader reader;
    struct hd_wire_key out;        /* of the frames that are sent to it, once it said hello */
    uint8_t nonce[HD_NONCE_BYTES]; /* of its challenge */
};

struct hd_pending_list {
    int listen_fd;            /* non-blocking, borrowed */
    uint8_t key[HD_WIRE_KEY]; /* of handshakes */
    struct hd_pending at[HD_PENDING_MAX];
    int n, n_unknown; /* connections, and how many were dropped */
};

/* Accepts one connection, if there is one, and keeps it for its hello. One at a time, so that only
 * silent connections are dropped for new ones. Cannot fail. */
void hd_pending_accept(struct hd_pending_list *list);

/* Reads what connection i has sent. Returns the body of the hello that it has completed, [*bytes_p]
 * and borrowed until the next call; the caller then removes the connection, drops it or keeps it as
 * greeted. Returns NULL when there is none, and when the connection was dropped or has ended. */
const void *hd_pending_read(struct hd_pending_list *list, int i, size_t *bytes_p);

/* Closes connection i, of somebody unknown; why: "it ...". Later connections move up by one. */
void hd_pending_drop(struct hd_pending_list *list, int i, const char *why);

/* Takes connection i, whose descriptor is the caller's now, out of the list. Later connections move
 * up by one. */
void hd_pending_remove(struct hd_pending_list *list, int i);

/* Closes all connections. */
void hd_pending_close(struct hd_pending_list *list);
