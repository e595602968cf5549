/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that tests make up, of iterations that are all alike. */
#pragma once

#include "runner/trace/trace_file.h"

/* A task or sync point of an iteration; times are in microseconds after the iteration's begin. */
struct planted {
    const char *name;
    int lane; /* of workers, then collectives */
    double begin, length;
    int before;    /* how many tasks earlier the one stands that it waits for; 0: none */
    int64_t bytes; /* of a sync point, in each direction */
};

/* Writes a trace of so many iterations and ranks, each with an update, to a scratch file, in which
 * rank r's clock is r * ahead_us ahead, and reads it as the parts of ranks on hosts of their own
 * are read. The caller releases it. */
struct hd_trace_file *planted_read(const struct planted *tasks, int n, int workers, int iterations,
                                   double length_us, int ranks, double ahead_us);
