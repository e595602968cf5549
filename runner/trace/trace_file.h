/* SPDX-License-Identifier: Apache-2.0 */
/* A trace.json read back: what ran where and when on all ranks, what waited for what, and what it
 * adds up to on one rank. One thread at a time.
 *
 * The file is JSON for Perfetto and chrome://tracing, an element a line. Its member "traceEvents"
 * has lanes and events, as hd_trace_write writes them, flow arrows and counters, which are derived
 * from the rest and not read back. "clock" tells how the clocks of hosts were aligned. "iterations"
 * has lists [rank, iteration, number of its first task, updates before it, time], and "tasks" lists
 * of the fields of struct hd_trace_task, as hd_observer_write writes them. Times are in
 * microseconds. A simulation's trace has no more than lanes and events. */
#pragma once

#include "runner/simulate/model/submission.h"

enum {
    HD_TRACE_NAMES = 256,
    HD_TRACE_LANES = 4096,
    HD_TRACE_NAME_BYTES = 64,
    HD_TRACE_RING = 1 << 16 /* events that a traced run keeps per lane, the newest */
};

struct hd_trace_event {
    double begin_us, end_us; /* after the start of training */
    int32_t iteration;
    int32_t task; /* index of its first task; -1: unknown */
    int16_t lane, name, shard;
    int16_t bucket, item, stage;
    int16_t fused; /* tasks behind it that it is of, too */
};

/* A task, sync point or wait of the submitter. */
struct hd_trace_task {
    struct hd_submitted at; /* its name is that of events */
    struct hd_peer_bytes exchange;
    int rank, number; /* numbers of a rank are consecutive */
    double at_us;     /* when it was submitted */
    double begin_us, end_us;
    double work_us;      /* time in bodies; 0 if there is no event of it */
    int64_t event, last; /* its events; -1: there is none */
    int64_t before; /* index in `before` of the first number that it waited for; the next task's
                       ends them */
};

struct hd_trace_iteration {
    int rank, number;
    int64_t iteration, updates;
    double at_us;
};

/* A lane is that of a worker, or of the collectives, whose events are waits for other ranks. */
struct hd_trace_lane {
    int rank, tid;
    bool collectives;
    char name[HD_TRACE_NAME_BYTES];
};

/* The sum over all events of a name on workers, or over the waits of a collective. */
struct hd_trace_sum {
    char name[HD_TRACE_NAME_BYTES];
    bool wait;
    int64_t count;
    double busy_us;
    double any_us;   /* at least one of them was under way: the union of their intervals */
    double until_us; /* end of the latest so far */
};

struct hd_trace_file {
    struct hd_trace_event *events; /* in order of begin_us */
    struct hd_trace_task *tasks;   /* [n_tasks + 1] in order of rank and number */
    int *before;
    struct hd_trace_iteration *iterations; /* in order of rank */
    int64_t n_events, capacity, n_tasks, tasks_capacity, n_before, before_capacity, n_iterations,
        iterations_capacity;
    int rank; /* that the sums are of: the first */
    int n_lanes, n_names, workers;
    int ranks, gpus; /* ranks; GPUs of each */
    struct hd_comm_hosts hosts;
    char clock[256];       /* how the clocks of hosts were aligned; "" if nobody had to */
    double clock_error_us; /* by how much times of different hosts may be wrong */
    struct hd_trace_lane lanes[HD_TRACE_LANES];
    struct hd_trace_sum sums[HD_TRACE_NAMES]; /* by hd_trace_event.name */
    bool cut;                                 /* at the start: older events were not kept */
    double begin_us, end_us;                  /* of all events of `rank` */
    double worked_us;                         /* at least one worker was in a body */
    double waited_us;                         /* at least one collective waited */
    double exposed_us;                        /* ... and no worker was in a body meanwhile */
};

/* Reads the trace that a run left. hd_trace_file_release (accepts NULL)
 * releases it. Errors (logged): HD_ERR_INPUT
 * when it cannot be read, HD_ERR_FORMAT naming the line, HD_ERR_NOMEM. */
int hd_trace_file_read(const char *path, struct hd_trace_file **trace_p);
void hd_trace_file_release(struct hd_trace_file *trace);

/* Reads the parts of a trace that the ranks of a run have left, with times of their own clocks:
 * get(arg, rank, &text) stores the text of each, which is freed with hd_free. Times become those
 * after `origin_ns` of rank 0's clock. hd_trace_file_release releases it. Returns HD_OK, an error
 * of `get`, or HD_ERR_FORMAT or HD_ERR_NOMEM (logged). */
int hd_trace_file_join(int ranks, const struct hd_comm_hosts *hosts, int64_t origin_ns,
                       int (*get)(void *arg, int rank, char **text_p), void *arg,
                       struct hd_trace_file **trace_p);

/* Returns the task of a rank's number; NULL: it was not kept. */
const struct hd_trace_task *hd_trace_file_find_task(const struct hd_trace_file *trace, int rank,
                                                    int number);

/* Brings the clocks of hosts to that of the first, whose ranks the tasks' sync points joined: none
 * was passed anywhere before all had arrived. Fills in `clock` and `clock_error_us` (clocks.c).
 * Returns HD_OK or HD_ERR_NOMEM. */
int hd_trace_file_align_clocks(struct hd_trace_file *trace);
