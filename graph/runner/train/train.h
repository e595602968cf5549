/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a training run, from the rendezvous to the files it leaves. */
#ifndef HD_GRAPH_RUNNER_TRAIN_TRAIN_H
#define HD_GRAPH_RUNNER_TRAIN_TRAIN_H

#include "graph/execute/execute.h"
#include "graph/runner/run_spec.h"
#include "graph/runner/train/gpus.h"
#include "graph/runner/train/stopwatch.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/comm_nccl.h"
#include "runtime/machine/topology.h"
#include "runtime/ranks/fingerprint.h"
#include "runtime/ranks/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>

struct hd_train {
    struct hd_options *options;
    struct hd_world world;
    struct hd_core_share share;
    struct hd_gpus gpus;
    struct hd_fingerprint fingerprint;
    struct hd_run_spec run_spec;
    struct hd_plan *plan;
    int links_fd, links_port; /* where other hosts' ranks find this one; or -1, 0 */
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_nccl *nccl; /* or NULL */
    struct hd_session *session;
    _Atomic(struct hd_session *)
        visible_session;          /* the session, while other threads may look at it */
    pthread_mutex_t visible_lock; /* held by the rendezvous's thread while it does */
    struct hd_executor *executor;
    struct hd_logbook *logbook;        /* rank 0 */
    char *dir;                         /* the run directory */
    int dir_lock;                      /* rank 0: holds it; -1: not yet */
    struct hd_checkpoint *resume_from; /* what the run goes on from, until it does; or NULL */
    struct hd_checkpoint_writer *checkpoints;
    int64_t checkpoint_ns;        /* when the last one was begun */
    double checkpoint_interval_s; /* from one to the next; 0: never by the clock */
    bool wished;                  /* rank 0: for the next one */
    bool can_resume;              /* it was written, and then the run stopped */
    int64_t begin_ns;             /* start of the process, hd_clock_get_ns() */
    int64_t train_ns;             /* start of the first iteration */
    int64_t shown_ns;             /* when the progress line was last shown */
    struct hd_stopwatch watch;    /* rank 0 */
    struct hd_metrics *metrics;   /* rank 0; or NULL */

    pthread_t monitor; /* while `monitored`; then what it remembers */
    bool monitored;
    atomic_bool monitor_ends;
    int64_t seen_finished, seen_ns;
};

/* Rank 0: makes the run directory, unless it is known, with the effective config and the logbook,
 * which goes on from train->resume_from (outputs.c). */
int hd_train_open_outputs(struct hd_train *train);

/* Rank 0: shows the progress now and then; called before every iteration (outputs.c). */
void hd_train_show_progress(void *train);

/* Rank 0: writes final weights, result.json and trace, and prints the summary (outputs.c). */
int hd_train_write_results(struct hd_train *train, const char *reason);

#endif
