/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks whose memory is apart: what comm_message.c needs of a transport (MPI,
 * TCP). */
#ifndef HD_RUNTIME_COMM_COMM_LINKS_H
#define HD_RUNTIME_COMM_COMM_LINKS_H

#include "runtime/comm/comm.h"

enum {
    HD_LINKS_MESSAGE_BYTES = 1 << 30, /* most bytes of a message: MPI counts in int */
    HD_LINKS_TAGS = 1 << 15,          /* tags are smaller: what MPI promises */
    HD_LINKS_TEXT = 256
};

/* All calls one after another, from any thread. None blocks but `close`. */
struct hd_links_ops {
    /* Starts transfers[n] (none of this rank itself; 0 bytes are a message too). Between two ranks,
     * messages stay in order. They are numbered from 0, on from those started before, until
     * `reset`. */
    int (*start)(struct hd_links *links, int tag, const struct hd_comm_transfer *transfers, int n);
    /* Makes progress, then done[i] says whether message i is done. */
    int (*progress)(struct hd_links *links, bool *done);
    /* All messages are over: numbers begin anew. */
    void (*reset)(struct hd_links *links);
    /* Whether a message of `rank` with this tag is here that nobody asked for yet; may be NULL. */
    bool (*probe)(struct hd_links *links, int rank, int tag);
    /* What went wrong, after start or progress returned an error; valid until close. */
    const char *(*error)(struct hd_links *links);
    /* orderly: all messages are over on all ranks. Else others may be gone, and nobody is waited
     * for. */
    void (*close)(struct hd_links *links, bool orderly);
};

struct hd_links {
    const struct hd_links_ops *ops;
};

#endif
