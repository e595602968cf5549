/* SPDX-License-Identifier: Apache-2.0 */
/* A run's trace.json read back: what ran where and when, and what it adds up to. One thread at a
 * time. */
#ifndef HD_RUNNER_HISTORY_TRACE_FILE_H
#define HD_RUNNER_HISTORY_TRACE_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HD_TRACE_NAMES = 256,
    HD_TRACE_LANES = 512,
    HD_TRACE_NAME_BYTES = 64,
    HD_TRACE_RING = 1 << 16 /* events that a traced run keeps per lane, the newest */
};

struct hd_trace_event {
    double begin_us, end_us; /* after the start of training */
    int32_t iteration;
    int16_t lane, name, shard;
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
    int64_t n_events, capacity;
    int n_lanes, n_names, workers;
    struct hd_trace_lane lanes[HD_TRACE_LANES];
    struct hd_trace_sum sums[HD_TRACE_NAMES]; /* by hd_trace_event.name */
    bool cut;                                 /* at the start: older events were not kept */
    double begin_us, end_us;                  /* of all events */
    double worked_us;                         /* at least one worker was in a body */
    double waited_us;                         /* at least one collective waited */
    double exposed_us;                        /* ... and no worker was in a body meanwhile */
};

/* Reads the trace that a run left. hd_trace_file_release (accepts NULL)
 * releases it. Errors (logged): HD_ERR_INPUT
 * when it cannot be read, HD_ERR_FORMAT naming the line, HD_ERR_NOMEM. */
int hd_trace_file_read(const char *path, struct hd_trace_file **trace_p);
void hd_trace_file_release(struct hd_trace_file *trace);

#endif
