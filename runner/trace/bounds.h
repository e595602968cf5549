/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of the rate of a run, from its trace: of the newest whole iterations that all ranks have
 * in it, some ten thousand tasks at most. One thread at a time. */
#pragma once

#include "runner/trace/trace_file.h"

#include <stdio.h>

enum { HD_BOUNDS_STEPS = 5 };

struct hd_bounds {
    int64_t iterations; /* 0: the trace has too few of them, or no tasks, and the rest is zero */
    const char *unit;   /* what rates are of: "updates", or "iterations" where they made none */
    double units;       /* in these iterations */
    double seconds;     /* that they took */
    double replayed_s;  /* that the replay of their tasks takes (runner/simulate/model) */
    double work_s;      /* of the busiest worker: */
    int work_rank;
    char work_lane[HD_TRACE_NAME_BYTES];
    double path_s;          /* the critical path: a replay with as many workers as there is work */
    double cable_s;         /* that the bytes of a host take, of the one that sends the most */
    double bytes_per_s;     /* of the cable; 0: nothing crosses it */
    bool measured;          /* by this trace */
    struct hd_bounds_step { /* the most promising first */
        char name[HD_TRACE_NAME_BYTES];
        double faster; /* the rate's gain if it took no time: 0.12 is 12 % */
    } steps[HD_BOUNDS_STEPS];
    int n_steps;
};

/* bytes_per_s is the cable's rate, 0 if that is unknown. Returns HD_OK, HD_ERR_NOMEM, or the errors
 * of hd_cluster_simulate (logged). */
int hd_bounds_find(const struct hd_trace_file *trace, double bytes_per_s,
                   struct hd_bounds *bounds_p);

/* Writes a line of them, of more than zero iterations, to text[bytes]. */
void hd_bounds_describe(const struct hd_bounds *bounds, char *text, size_t bytes);

/* Writes them as lines for people. */
void hd_bounds_print(const struct hd_bounds *bounds, FILE *file);
