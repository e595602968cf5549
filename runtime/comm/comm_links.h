/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, the operations that a transport (MPI, TCP) provides for comm_message.c.
 * A transport has links for each channel, whose messages do not wait for those of another.
 * Threads: calls for the same links follow one another, from any thread. */
#pragma once

#include "runtime/comm/comm.h"

struct pollfd;

enum {
    HD_LINKS_MESSAGE_BYTES = 1 << 30, /* longest message: MPI counts in int */
    HD_LINKS_TAGS = 1 << 15,          /* tags are smaller, as MPI promises no more */
    HD_LINKS_TEXT = 256,
    HD_LINKS_PLACE = 256 /* a text that says where a rank is, with its zero */
};

/* None blocks but `close`. */
struct hd_links_ops {
    /* Starts transfers[n] (none of this rank itself; 0 bytes are a message too). Between two ranks,
     * messages stay in order. They are numbered from 0, on from those started before, until
     * `reset`. Returns HD_OK or a status. */
    int (*start)(struct hd_links *links, int tag, const struct hd_comm_transfer *transfers, int n);
    /* Makes progress, then done[i] says whether message i has ended. Returns HD_OK or a status. */
    int (*progress)(struct hd_links *links, bool *done);
    /* Fills polls[] with at most `capacity` descriptors for one of which `progress` waits, and
     * returns how many; -1: it has something to do now. NULL: nobody can know. */
    int (*arm)(struct hd_links *links, struct pollfd *polls, int capacity);
    /* Numbers messages from 0 again; all of them have ended. */
    void (*reset)(struct hd_links *links);
    /* Returns whether a message of `rank` with this tag is here that nobody asked for yet; may be
     * NULL. */
    bool (*probe)(struct hd_links *links, int rank, int tag);
    /* Returns why start or progress failed, valid until close, and stores to which rank; -1: to
     * none, or nobody knows. */
    const char *(*error)(struct hd_links *links, int *rank_p);
    /* Releases the links. orderly: all messages have ended on all ranks. Else others may be gone,
     * and nobody is waited for. */
    void (*close)(struct hd_links *links, bool orderly);
};

struct hd_links {
    const struct hd_links_ops *ops;
};

/* Learns where the partners of `comm` are: places[host], each as "10.0.0.2 (eth0) on node2". All
 * ranks call it in one order with the rendezvous. Returns the errors of hd_rendezvous_gather_all.
 */
int hd_links_gather_places(struct hd_comm *comm, struct hd_rendezvous *rendezvous,
                           char (*places)[HD_LINKS_PLACE]);

/* Writes a sentence about the error of the links of `comm`, whose partners are at places[]; `what`
 * has happened to a connection: "broke". */
void hd_links_describe_error(struct hd_comm *comm, struct hd_links *links,
                             char (*places)[HD_LINKS_PLACE], const char *what,
                             char text[HD_RENDEZVOUS_TEXT]);

/* Sends an empty message to each partner of `comm` by the links of each channel, and receives one
 * of each, within timeout_ns. Returns HD_OK, or HD_ERR_SYSTEM with a sentence in `text`. */
int hd_links_try(struct hd_comm *comm, struct hd_links *const *links,
                 char (*places)[HD_LINKS_PLACE], int64_t timeout_ns, char text[HD_RENDEZVOUS_TEXT]);

/* Closes links[n]; NULL: there are none. */
void hd_links_close(struct hd_links *const *links, int n, bool orderly);
