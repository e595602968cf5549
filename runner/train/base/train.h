/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one rank of a training run, from the rendezvous to the files it leaves. The main
 * thread owns it; monitor.h says what other threads look at. */
#pragma once

#include "graph/execute/execute.h"
#include "runner/base/run_spec.h"
#include "runner/trace/bounds.h"
#include "runner/train/base/gpus.h"
#include "runner/train/base/monitor.h"
#include "runner/train/base/ranks.h"
#include "runner/train/base/stopwatch.h"
#include "runner/train/base/workers.h"
#include "runtime/machine/topology.h"
#include "runtime/ranks/fingerprint.h"

#include <sched.h>
#include <sys/types.h>

/* The videos that rank 0 makes (videos.h). */
struct hd_videos {
    bool wanted;
    cpu_set_t cores;   /* of this rank */
    pid_t process;     /* makes one; 0: none */
    char *weights;     /* of which it makes it */
    int64_t looked_ns; /* when it was last looked for another */
};

/* Rank 0 shows and leaves these (outputs.h). */
struct hd_outputs {
    int dir_lock; /* holds the run directory; -1: not yet */
    bool opened;  /* the run directory is this run's, on all ranks */
    struct hd_logbook *logbook;
    struct hd_metrics *metrics; /* or NULL */
    int64_t shown_ns;           /* when the progress line was last shown */
    int64_t iteration_ns;       /* when the last iteration began */
    struct hd_videos videos;
};

/* The checkpoints that a rank writes (checkpoints.h). */
struct hd_checkpoints {
    struct hd_checkpoint_writer *writer;
    int64_t begun_ns;  /* when the last one was begun */
    double interval_s; /* from one to the next; 0: never by the clock */
    bool requested;    /* the next one, by rank 0 */
    bool can_resume;   /* it was written, and then the run stopped */
    int stop_signal;   /* because of which it stopped; 0: it has not */
};

/* The trace that this rank will leave (traces.h). */
struct hd_train_trace {
    struct hd_observer *observer; /* NULL: no trace */
    atomic_int parts;             /* that other ranks have left */
    struct hd_bounds bounds;      /* of rank 0, once the trace is written */
};

struct hd_run_timing {
    int64_t begin_ns;          /* start of the process, hd_clock_get_ns() */
    int64_t train_ns;          /* start of the first iteration of this process, */
    int64_t first_update;      /* and what earlier ones of a resumed run had done: updates, */
    double first_env_step;     /* env steps */
    struct hd_stopwatch watch; /* rank 0 */
};

struct hd_train {
    struct hd_options *options;
    struct hd_run_spec run_spec;
    struct hd_core_share share;
    struct hd_gpus gpus;
    struct hd_fingerprint fingerprint;
    struct json_t *origins; /* runner/base/origins.h */
    struct hd_plan *plan;
    struct hd_workers workers;
    struct hd_ranks ranks;
    struct hd_session *session;
    struct hd_executor *executor;
    struct hd_monitor monitor;
    char *dir;                         /* the run directory, on all ranks */
    atomic_int lost_rank;              /* the first that was lost; -1: none */
    struct hd_checkpoint *resume_from; /* what the run continues from, until it does; or NULL */
    struct hd_checkpoints checkpoints;
    struct hd_outputs outputs;
    struct hd_train_trace trace;
    struct hd_run_timing timing;
};
