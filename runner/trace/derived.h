/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows along dependences and counters, which follow from a trace's events and tasks. One thread
 * at a time. */
#pragma once

#include "runner/trace/trace_file.h"

/* Calls each(arg, number, from, to) for every dependence between two tasks of a rank that have
 * events, with the last event of the one and the first of the other; numbers count from 1 on. Those
 * that follow from two others are left out. Returns HD_OK or HD_ERR_NOMEM. */
int hd_trace_each_flow(const struct hd_trace_file *trace,
                       void (*each)(void *arg, int64_t number, const struct hd_trace_event *from,
                                    const struct hd_trace_event *to),
                       void *arg);

/* Returns when a task was submitted and all that it waits for had ended. */
double hd_trace_find_ready(const struct hd_trace_file *trace, const struct hd_trace_task *task);

enum hd_trace_counter {
    HD_COUNTS_READY,   /* tasks whose dependences have ended and that no worker has begun */
    HD_COUNTS_BUSY,    /* workers in a body */
    HD_COUNTS_BYTES,   /* that open sync points send to other hosts, and receive */
    HD_COUNTS_EXPOSED, /* 1 while a sync point is open and no worker is in a body */
    HD_TRACE_COUNTERS
};

/* A counter of a rank has this value from then on. */
struct hd_trace_count {
    double us;
    int rank;
    enum hd_trace_counter counter;
    int64_t value;
};

/* Stores the changes of all counters in order of rank and time, which the caller frees (hd_free).
 * Returns HD_OK or HD_ERR_NOMEM. */
int hd_trace_count(const struct hd_trace_file *trace, struct hd_trace_count **counts_p,
                   int64_t *n_p);

/* Returns a counter's name for people. */
const char *hd_trace_counter_get_name(enum hd_trace_counter counter);
