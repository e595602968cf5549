/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the launcher: launch_restarts.c makes attempts, launch_rank.c starts and ends ranks,
 * and launch_watch.c supervises one attempt. One thread. */
#pragma once

#include "runtime/base/status.h"
#include "runtime/launch/launch.h"
#include "runtime/ranks/world.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { HD_SIGNALED = 256 /* added to a signal's number in the code of a rank */ };

struct hd_launch_rank {
    pid_t pid; /* 0: ended */
    pid_t last_pid;
    int code; /* exit code, or HD_SIGNALED + signal */
};

struct hd_launch {
    struct hd_launch_options options; /* with the defaults filled in */
    char master_addr[HD_ADDR_BYTES];  /* options.master_addr points here */
    char *const *argv;                /* of the ranks of this attempt */
    int dir_fds[2]; /* a pipe in which ranks tell the run directory; -1: not open */
    char dir[4096]; /* that they have told; "": none yet */
    char why[512];  /* the failure in a sentence */
    char program[4096];
    int listen_fd; /* the socket for rank 0; -1: rank 0 is on another node, or alone */
    int secret_fd; /* from which ranks read the secret; -1: not made yet */
    uint8_t secret[HD_SECRET_BYTES]; /* options.secret points here */
    struct hd_launch_rank *ranks;
    int n_running;
    int cause;         /* index of the rank that ended the run, or -1 */
    bool stopping;     /* the others were asked to stop, so their ends are no cause */
    bool killing;      /* the others were killed */
    int stop_signal;   /* the first signal that the launcher got, or 0 */
    int64_t signal_ns; /* when it came */
    bool pressed;      /* Ctrl-C again: the ranks stop at once */
    int64_t report_ns; /* when to name the cause; 0: there is none yet */
    int64_t kill_ns;   /* when to kill the rest; 0: not asked to stop yet */
    int signal_fd;     /* reads the signals that are blocked and waited for; -1: not open */
};

static inline int hd_launch_get_world(const struct hd_launch *launch)
{
    return launch->options.nnodes * launch->options.nproc_per_node;
}

/* Returns the number of the rank that is the local_rank-th of this node. */
static inline int hd_launch_get_rank(const struct hd_launch *launch, int local_rank)
{
    return launch->options.node_rank * launch->options.nproc_per_node + local_rank;
}

/* Starts all ranks of this node; `port` is where rank 0 listens. Returns HD_OK, or HD_ERR_SYSTEM
 * (logged) when a process could not be started; those before it run. */
int hd_launch_start_ranks(struct hd_launch *launch, int port);

/* Sends a signal to the process groups of the ranks that run. */
void hd_launch_signal_ranks(const struct hd_launch *launch, int number);

/* Collects a rank if it has ended, and kills what is left of its process group. Returns whether it
 * has ended. */
bool hd_launch_reap_rank(struct hd_launch_rank *rank);

/* Reads the run directory if a rank has told one since the last call. */
void hd_launch_read_dir(struct hd_launch *launch);

/* Asks the ranks to stop by a signal; those that do not are killed after a time. */
void hd_launch_request_stop(struct hd_launch *launch, int number);

/* Waits until all ranks have ended: names the rank that failed, stops the others, and passes on the
 * signals that this process gets. Cannot fail: it returns the exit code of the attempt. */
int hd_launch_supervise(struct hd_launch *launch);

/* Waits without ranks. Cannot fail: it returns the signal that ended the pause, or 0. */
int hd_launch_pause(struct hd_launch *launch, int64_t pause_ms);

/* Runs all ranks of this node once. Returns an exit code, no status; errors are logged. */
int hd_launch_attempt(struct hd_launch *launch);

/* Runs all ranks, again after failures if the options say so. Returns an exit code, no status;
 * errors are logged. */
int hd_launch_run_attempts(struct hd_launch *launch);
