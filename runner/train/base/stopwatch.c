/* SPDX-License-Identifier: Apache-2.0 */
/* Called once an iteration. */
#include "runner/train/base/stopwatch.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdio.h>

static void take_sample(struct hd_stopwatch_sample *sample, const struct hd_trace *trace,
                        int64_t updates, int64_t iterations)
{
    const struct hd_trace_totals totals = hd_trace_get_totals(trace);
    sample->at_ns = hd_clock_get_ns();
    sample->updates = updates;
    sample->iterations = iterations;
    sample->busy_ns = totals.busy_ns;
    sample->gpu_busy_ns = totals.gpu_busy_ns;
    sample->exposed_ns = totals.exposed_ns;
    hd_trace_read_timings(trace, sample->timings);
}

void hd_stopwatch_tick(struct hd_stopwatch *watch, const struct hd_trace *trace, int64_t updates,
                       int64_t iterations)
{
    if (watch->after < 0 || updates < watch->after)
        return;
    take_sample(&watch->last, trace, updates, iterations);
    if (!watch->running)
        watch->first = watch->last;
    watch->running = true;
}

static int64_t time_of(const struct hd_timing *timing, const char *verb)
{
    for (; timing->verb; timing++)
        if (timing->verb == verb)
            return timing->busy_ns;
    return 0;
}

static void read_verbs(const struct hd_stopwatch *watch, struct hd_rates *rates)
{
    const struct hd_timing *timing = watch->last.timings;
    for (; timing->verb && rates->n_verbs < HD_RATES_VERBS; timing++) {
        int i = rates->n_verbs++;
        snprintf(rates->verbs[i].verb, HD_RATES_VERB_BYTES, "%s", timing->verb);
        rates->verbs[i].seconds =
            (double)(timing->busy_ns - time_of(watch->first.timings, timing->verb)) * 1e-9;
    }
}

int hd_stopwatch_read(const struct hd_stopwatch *watch, double env_steps, int64_t iterations,
                      struct hd_rates *rates_p)
{
    const struct hd_stopwatch_sample *first = &watch->first, *last = &watch->last;
    if (last->updates == first->updates)
        return hd_fail(HD_ERR_INPUT, "the run ended before anything could be measured");
    rates_p->seconds = (double)(last->at_ns - first->at_ns) * 1e-9;
    rates_p->updates = last->updates - first->updates;
    rates_p->env_steps =
        env_steps * (double)(last->iterations - first->iterations) / (double)iterations;
    rates_p->busy_s = (double)(last->busy_ns - first->busy_ns) * 1e-9;
    rates_p->gpu_busy_s = (double)(last->gpu_busy_ns - first->gpu_busy_ns) * 1e-9;
    rates_p->exposed_s = (double)(last->exposed_ns - first->exposed_ns) * 1e-9;
    read_verbs(watch, rates_p);
    return HD_OK;
}
