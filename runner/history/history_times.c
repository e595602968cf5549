/* SPDX-License-Identifier: Apache-2.0 */
/* Prints where the time went as a table of text. */
#include "runner/history/history.h"
#include "runner/trace/bounds.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

static int by_time(const void *a, const void *b)
{
    const struct hd_trace_sum *x = a, *y = b;
    if (x->wait != y->wait)
        return x->wait - y->wait;
    return (x->busy_us < y->busy_us) - (x->busy_us > y->busy_us);
}

static void print_sums(const struct hd_trace_file *trace, struct hd_trace_sum *sums, FILE *file)
{
    const double span_us = trace->end_us - trace->begin_us;
    bool waits = false;
    fprintf(file, "%-32s %10s %12s %12s %7s\n", "step", "count", "busy s", "union s", "union %");
    for (int i = 0; i < trace->n_names; i++) {
        const struct hd_trace_sum *sum = &sums[i];
        if (sum->wait && !waits)
            fprintf(file, "\n%-32s %10s %12s %12s %7s\n", "waiting for other ranks", "count",
                    "open s", "union s", "union %");
        waits |= sum->wait;
        if (sum->count > 0)
            fprintf(file, "%-32s %10lld %12.6f %12.6f %7.2f\n", sum->name, (long long)sum->count,
                    sum->busy_us * 1e-6, sum->any_us * 1e-6, 100 * sum->any_us / span_us);
    }
}

static void print_trace(const struct hd_trace_file *trace, FILE *file)
{
    struct hd_trace_sum sums[HD_TRACE_NAMES];
    const double span_us = trace->end_us - trace->begin_us;
    double busy_us = 0;
    memcpy(sums, trace->sums, sizeof sums);
    qsort(sums, (size_t)trace->n_names, sizeof *sums, by_time);
    for (int i = 0; i < trace->n_names; i++)
        busy_us += sums[i].wait ? 0 : sums[i].busy_us;
    fprintf(file, "%.6f s of rank 0 traced, from %.6f s of training on%s; %lld events\n",
            span_us * 1e-6, trace->begin_us * 1e-6, trace->cut ? " (nothing older was kept)" : "",
            (long long)trace->n_events);
    if (trace->n_events == 0)
        return;
    fprintf(file, "%d %s busy %.1f %%; at least one of them %.1f %% of the time", trace->workers,
            trace->workers == 1 ? "worker" : "workers", 100 * busy_us / (span_us * trace->workers),
            100 * trace->worked_us / span_us);
    if (trace->waited_us > 0)
        fprintf(file, "; communication open %.1f %%, exposed %.1f %%",
                100 * trace->waited_us / span_us, 100 * trace->exposed_us / span_us);
    fprintf(file, "\n\n");
    print_sums(trace, sums, file);
}

static double of_sample(const json_t *sample, const char *key)
{
    return json_number_value(json_object_get(sample, key));
}

/* Says what crossed between nodes, of a run with several. */
static void print_traffic(const struct hd_history *history, FILE *file)
{
    const json_t *last = json_array_get(history->samples, json_array_size(history->samples) - 1);
    const double bytes = of_sample(last, "sent_bytes");
    const double updates = of_sample(last, "update") - of_sample(history->start, "update");
    if (bytes > 0 && updates > 0)
        fprintf(file, "\nthe node of rank 0 sent %.1f kB per update to other nodes\n",
                bytes / updates * 1e-3);
}

/* Prints the verbs in the order of their time, for runs without a trace. */
static void print_totals(const json_t *end, double seconds, double workers, FILE *file)
{
    struct {
        const char *verb;
        double busy_s;
        long long count;
    } list[HD_TRACE_NAMES], one;
    size_t n = 0, i;
    json_t *row;
    json_array_foreach(json_object_get(end, "verbs"), i, row) {
        if (n == HD_TRACE_NAMES)
            break;
        one.verb = json_string_value(json_array_get(row, 0));
        one.count = json_integer_value(json_array_get(row, 1));
        one.busy_s = json_number_value(json_array_get(row, 2));
        size_t at = n++;
        for (; at > 0 && list[at - 1].busy_s < one.busy_s; at--)
            list[at] = list[at - 1];
        list[at] = one;
    }
    fprintf(file, "%-32s %10s %12s %9s\n", "verb", "count", "busy s", "workers %");
    for (i = 0; i < n; i++)
        fprintf(file, "%-32s %10lld %12.6f %9.2f\n", list[i].verb ? list[i].verb : "?",
                list[i].count, list[i].busy_s, 100 * list[i].busy_s / (seconds * workers));
}

static int print_traced(const struct hd_history *history, double bytes_per_s, FILE *file)
{
    struct hd_bounds bounds;
    print_trace(history->trace, file);
    print_traffic(history, file);
    HD_TRY(hd_bounds_find(history->trace, bytes_per_s, &bounds));
    fputs("\n", file);
    hd_bounds_print(&bounds, file);
    return HD_OK;
}

int hd_history_print_times(const struct hd_history *history, double bytes_per_s, FILE *file)
{
    const size_t n = json_array_size(history->samples);
    if (history->trace)
        return print_traced(history, bytes_per_s, file);
    if (n == 0) {
        fprintf(file, "the run left no times; run it with --trace\n");
        return HD_OK;
    }
    const json_t *last = json_array_get(history->samples, n - 1);
    const double offset_s = of_sample(history->start, "offset_s");
    const double seconds = of_sample(last, "s") - offset_s;
    const double workers = of_sample(history->start, "workers");
    fprintf(file,
            "%.3f s of training, %.0f %s of rank 0 busy %.1f %%, communication exposed %.1f %% "
            "(run with --trace for more)\n\n",
            seconds, workers, workers == 1 ? "worker" : "workers",
            100 * of_sample(last, "busy_s") / (seconds * workers),
            100 * of_sample(last, "exposed_s") / seconds);
    if (history->end)
        print_totals(history->end, seconds, workers, file);
    else
        fprintf(file, "the run has not ended in order, so there are no totals by verb\n");
    print_traffic(history, file);
    return HD_OK;
}
