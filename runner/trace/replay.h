/* SPDX-License-Identifier: Apache-2.0 */
/* Iterations of a trace as the simulator's cluster model plays them. One thread at a time. */
#pragma once

#include "runner/simulate/model/cluster.h"
#include "runner/trace/trace_file.h"

/* A rank's tasks between two iterations. */
struct hd_replayed {
    struct hd_submission submission;
    struct hd_peers exchanges;
    const struct hd_trace_task *first; /* the task of node 0 */
    double *seconds;                   /* [nodes] */
};

struct hd_replay {
    const struct hd_trace_file *trace;
    struct hd_replayed *list;      /* [trace->ranks] */
    int64_t iterations;            /* of each; 0: the trace has too few */
    double begin_us, end_us;       /* of these on the first rank */
    int64_t updates;               /* in these */
    double submit_s, start_s;      /* of a task */
    double latency_s, bytes_per_s; /* of the network */
};

/* Chooses the iterations. hd_replay_release releases what it made. Returns HD_OK or HD_ERR_NOMEM.
 */
int hd_replay_create(const struct hd_trace_file *trace, struct hd_replay *replay_p);
void hd_replay_release(struct hd_replay *replay);

enum { HD_NO_NAME = -1, HD_REPLAY_ITERATIONS_MIN = 4 };

/* This says what is to be different. */
struct hd_replay_change {
    int free;          /* the tasks of this name take no time; or HD_NO_NAME */
    bool no_overheads; /* tasks are submitted and started in no time */
    bool no_network;   /* messages take no time */
    bool many_workers; /* as many as there is work for, and one that only submits */
};

/* Plays it, and stores the seconds that the iterations take. Returns HD_OK, HD_ERR_NOMEM,
 * or HD_ERR_UNSUPPORTED when ranks wait for each other for ever (logged). */
int hd_replay_run(struct hd_replay *replay, const struct hd_replay_change *change,
                  double *seconds_p);
