/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/stopwatch.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdio.h>

void hd_stopwatch_tick(struct hd_stopwatch *watch, const struct hd_trace *trace, int64_t updates,
                       int64_t iterations)
{
    int64_t tasks;
    if (watch->after < 0 || updates < watch->after)
        return;
    struct hd_moment now = {.at_ns = hd_clock_ns(), .updates = updates, .iterations = iterations};
    hd_trace_totals(trace, &now.busy_ns, &tasks);
    now.exposed_ns = hd_trace_exposed_ns(trace);
    if (!watch->running)
        watch->first = now;
    watch->running = true;
    watch->last = now;
}

static void read_verbs(struct hd_trace *trace, double share, struct hd_rates *rates)
{
    const struct hd_timing *timing = hd_trace_timings(trace);
    for (; timing->verb && rates->n_verbs < HD_RATES_VERBS; timing++) {
        int i = rates->n_verbs++;
        snprintf(rates->verbs[i].verb, HD_RATES_VERB_BYTES, "%s", timing->verb);
        rates->verbs[i].seconds = share * (double)timing->any_ns * 1e-9;
    }
}

int hd_stopwatch_read(const struct hd_stopwatch *watch, struct hd_trace *trace, double env_steps,
                      int64_t iterations, struct hd_rates *rates_p)
{
    const struct hd_moment *first = &watch->first, *last = &watch->last;
    if (last->updates == first->updates)
        return hd_fail(HD_ERR_INPUT, "the run ended before anything could be measured");
    rates_p->seconds = (double)(last->at_ns - first->at_ns) * 1e-9;
    rates_p->updates = last->updates - first->updates;
    double share = (double)(last->iterations - first->iterations) / (double)iterations;
    rates_p->env_steps = share * env_steps;
    rates_p->busy_s = (double)(last->busy_ns - first->busy_ns) * 1e-9;
    rates_p->exposed_s = (double)(last->exposed_ns - first->exposed_ns) * 1e-9;
    read_verbs(trace, share, rates_p);
    return HD_OK;
}
