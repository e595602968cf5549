/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, the operations that a transport (MPI, TCP) provides for comm_message.c.
 * Threads: calls follow one another, from any thread. */
#ifndef HD_RUNTIME_COMM_COMM_LINKS_H
#define HD_RUNTIME_COMM_COMM_LINKS_H

#include "runtime/comm/comm.h"

enum {
    HD_LINKS_MESSAGE_BYTES = 1 << 30, /* longest message: MPI counts in int */
    HD_LINKS_TAGS = 1 << 15,          /* tags are smaller, as MPI promises no more */
    HD_LINKS_TEXT = 256
};

/* None blocks but `close`. */
struct hd_links_ops {
    /* Starts transfers[n] (none of this rank itself; 0 bytes are a message too). Between two ranks,
     * messages stay in order. They are numbered from 0, on from those started before, until
     * `reset`. Returns HD_OK or a status. */
    int (*start)(struct hd_links *links, int tag, const struct hd_comm_transfer *transfers, int n);
    /* Makes progress, then done[i] says whether message i has ended. Returns HD_OK or a status. */
    int (*progress)(struct hd_links *links, bool *done);
    /* Returns whether `progress` has nothing to do until *fd_p is readable. NULL: nobody can know.
     */
    bool (*arm)(struct hd_links *links, int *fd_p);
    /* Numbers messages from 0 again; all of them have ended. */
    void (*reset)(struct hd_links *links);
    /* Returns whether a message of `rank` with this tag is here that nobody asked for yet; may be
     * NULL. */
    bool (*probe)(struct hd_links *links, int rank, int tag);
    /* Returns a sentence about the error that start or progress returned; valid until close. */
    const char *(*error)(struct hd_links *links);
    /* Releases the links. orderly: all messages have ended on all ranks. Else others may be gone,
     * and nobody is waited for. */
    void (*close)(struct hd_links *links, bool orderly);
};

struct hd_links {
    const struct hd_links_ops *ops;
};

#endif
