/* SPDX-License-Identifier: Apache-2.0 */
/* The things that a launcher is told, and that it and its ranks agree on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Exit code of a rank that leaves only because another rank was lost. A rank uses it, and logs
 * nothing, when HD_SUPERVISED is set: the launcher then names the rank that was the cause. */
enum { HD_EXIT_PEER = 76 };

enum { HD_PORT_DEFAULT = 29500 /* for runs on several nodes */ };

struct hd_launch_options {
    int nproc_per_node;
    int nnodes, node_rank;   /* 0 <= node_rank < nnodes */
    const char *master_addr; /* NULL: 127.0.0.1; needed with several nodes */
    int master_port;         /* 0: a free one on one node, else HD_PORT_DEFAULT */
    bool standalone;         /* one node, free port, whatever the environment says */
    int max_restarts;        /* how often all ranks are started again after a failure that another
                                attempt might not repeat */
    /* Returns the arguments of such an attempt, and whether it goes on from a checkpoint. `dir` is
     * the run directory that a rank has told, "" if none has. NULL: the first arguments. */
    char *const *(*get_arguments)(void *arg, const char *dir, bool *from_checkpoint_p);
    /* Called once unless all ranks returned 0 or no rank has told a run directory: when all have
     * ended, with the signal that stopped the run, or 0 and a sentence. NULL: nobody is told. */
    void (*on_end)(void *arg, const char *dir, int signal, const char *why);
    void *arg;
    int64_t shards;        /* of the run: when the same rank fails twice in a row, the next attempt
                              is made with fewer ranks that they allow; 0: never */
    int sigterm_grace_s;   /* what ranks are given after a signal, in addition to the 1.5 s */
    const uint8_t *secret; /* [HD_SECRET_BYTES], the same on all nodes; NULL: one is drawn */
    const char *program;   /* what the ranks run; NULL: this very program */
};
