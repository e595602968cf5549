/* SPDX-License-Identifier: Apache-2.0 */
/* A trace records when tasks and collectives ran, by two clock reads around each body, in one ring
 * per worker and in totals per verb. Threads: recording is wait-free, and each worker writes its
 * own ring; the functions that read totals may be called from any thread. */
#pragma once

#include "runtime/value.h"

#include <stdio.h>

struct hd_trace;

enum { HD_TRACE_VERBS = 64 };

struct hd_event {
    const char *name; /* outlives the trace */
    int64_t begin_ns, end_ns;
    int64_t number; /* of the task or sync point (struct hd_task); 0: unknown */
    int32_t iteration;
    int16_t shard, bucket; /* shard -1: none */
    int16_t item, stage;   /* of steps in subtasks */
    int16_t fused;         /* tasks with the next numbers that it is of, too */
};

struct hd_trace_options {
    int workers;      /* those of GPUs included */
    int gpus;         /* the last ones of them */
    int64_t capacity; /* events kept per lane, the newest; 0: totals only */
    int channels;     /* of collectives; more than 0: measures how long these are exposed */
};

/* Creates a lane for each worker, and after them one for the waits of each channel's collectives.
 * Released by hd_trace_destroy (accepts NULL). Returns HD_OK or HD_ERR_NOMEM. */
int hd_trace_create(const struct hd_trace_options *options, struct hd_trace **trace_p);
void hd_trace_destroy(struct hd_trace *trace);

/* Record that a body begins on a worker, and that it has ended: of `verb` (a string that outlives
 * the trace, compared by address) on worker `lane`; one caller at a time for each lane. */
void hd_trace_begin(struct hd_trace *trace, int64_t now_ns);
void hd_trace_end(struct hd_trace *trace, int lane, const char *verb, const struct hd_event *event);

/* Record that a collective begins to wait for other ranks, and that it has ended. One is open at a
 * time on each channel. Any thread. */
void hd_trace_open(struct hd_trace *trace, int64_t now_ns);
void hd_trace_close(struct hd_trace *trace, int channel, const struct hd_event *event);

/* Stores totals by verb over all workers in timings_p[HD_TRACE_VERBS + 1], ended by verb == NULL,
 * in no fixed order. Workers may go on recording. */
void hd_trace_read_timings(const struct hd_trace *trace, struct hd_timing *timings_p);

/* Returns such totals in a list of the trace's, rewritten by the next call: one caller at a time.
 */
const struct hd_timing *hd_trace_get_timings(struct hd_trace *trace);

struct hd_trace_totals {
    int64_t tasks;       /* bodies */
    int64_t busy_ns;     /* of all bodies on CPU workers */
    int64_t gpu_busy_ns; /* of the work that bodies queued on GPUs */
    int64_t busiest_ns;  /* of all bodies on the worker that has the most */
    int64_t first_ns;    /* when the first body began (hd_clock_get_ns); 0 before it */
    /* Until a collective last began or ended to wait for other ranks: of all that waited; and of
     * some that waited while no worker had anything to do (exposed communication). */
    int64_t waited_ns, exposed_ns;
};

/* Returns the totals so far. */
struct hd_trace_totals hd_trace_get_totals(const struct hd_trace *trace);

/* Writes the rings as an object of Chrome / Perfetto JSON, but for its closing brace, times
 * relative to origin_ns. No worker may run. The stream knows whether that failed. */
void hd_trace_write(const struct hd_trace *trace, FILE *file, int rank, int64_t origin_ns);
