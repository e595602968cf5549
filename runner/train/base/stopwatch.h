/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a stretch of a run from within. Called by the submitting thread only. */
#pragma once

#include "runner/train/base/rates.h"
#include "runtime/engine/trace.h"

/* A sample counts what has happened up to a point of the submission. */
struct hd_stopwatch_sample {
    int64_t at_ns, updates, iterations, busy_ns, gpu_busy_ns, exposed_ns;
    struct hd_timing timings[HD_TRACE_VERBS + 1];
};

/* The stretch from the first iteration that begins with `after` updates made to the newest one.
 * Both ends lie at the same place of the submission, so what runs ahead at one end does at the
 * other. */
struct hd_stopwatch {
    int64_t after; /* -1: measures nothing */
    bool running;
    struct hd_stopwatch_sample first, last;
};

/* Takes a sample; called before every iteration. */
void hd_stopwatch_tick(struct hd_stopwatch *watch, const struct hd_trace *trace, int64_t updates,
                       int64_t iterations);

/* Stores what was measured, when nothing runs any more: of the whole run's env_steps the stretch
 * gets its share of the iterations. Fills the fields of rates_p above `workers`, gpu_busy_s and the
 * verbs. Returns HD_OK, or HD_ERR_INPUT (logged) when the run was too short. */
int hd_stopwatch_read(const struct hd_stopwatch *watch, double env_steps, int64_t iterations,
                      struct hd_rates *rates_p);
