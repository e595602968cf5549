/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of this node with torchrun's environment variables and supervises them: when a
 * rank fails, the launcher names it and stops the others, and it leaves no process behind. To be
 * used by a process with one thread. */
#ifndef HD_RUNTIME_LAUNCH_LAUNCH_H
#define HD_RUNTIME_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

/* Exit code of a rank that leaves only because another rank was lost. A rank uses it, and logs
 * nothing, when HD_SUPERVISED is set: the launcher then names the rank that was the cause. */
enum { HD_EXIT_PEER = 76 };

/* Tells the launcher, if there is one, in which directory the run is. Called by the rank that is
 * the first of its node. */
void hd_launch_tell_dir(const char *dir);

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

/* Runs the ranks with rank_argv (NULL-ended, with argv[0]) until all have ended; the first
 * SIGINT, SIGTERM or SIGHUP is passed on to them, and sigterm_grace_s and 1.5 s later they are
 * killed. A second SIGINT is passed on, too, and leaves them 1.5 s; a third one kills at once.
 * Between two attempts there is a pause, which grows from 0.5 s to a minute and is short again
 * after an attempt that lasted a minute. Every rank is a process group of its own, killed as a
 * whole when the rank ends, and dies with the launcher. The calling process must have one thread
 * and no other children. Returns an exit code, no status; errors are logged: 0 when all ranks
 * returned 0, 75 when some of them returned 75; else that of the first cause (1 for a signal); 130
 * after SIGINT; 1 after SIGTERM or SIGHUP unless all ranks returned 0 or 75; 2 for bad options and
 * 1 for a taken port (both before anything starts). */
int hd_ranks_launch(const struct hd_launch_options *options, char *const rank_argv[]);

#endif
