/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a run that a page shows, few enough to be quick in any browser. */
#include "runner/history/history.h"
#include "runner/trace/bounds.h"
#include "runner/trace/derived.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 600, ROWS_MIN = 60, EVENTS_MAX = 60000 };

/* Returns how many rows a table, and the samples, of one of so many runs may have: a curve of eight
 * runs is as fine as that of one. */
static int64_t count_rows(int runs)
{
    const int64_t rows = 8 * ROWS_MAX / runs;
    return rows > ROWS_MAX ? ROWS_MAX : rows < ROWS_MIN ? ROWS_MIN : rows;
}

/* Numbers of six digits are enough for pictures. */
static json_t *real(double value)
{
    char text[32];
    if (!isfinite(value))
        return json_null();
    snprintf(text, sizeof text, "%.6g", value);
    const double rounded = strtod(text, NULL);
    if (rounded == floor(rounded) && fabs(rounded) < 1e15)
        return json_integer((json_int_t)rounded);
    return json_real(rounded);
}

static json_t *whole(double value)
{
    return isfinite(value) ? json_integer((json_int_t)value) : json_null();
}

static json_t *text(const char *string)
{
    json_t *json = json_string(string);
    return json ? json : json_string("(not UTF-8)");
}

/* -- Tables and samples ------------------------------------------------------------------------ */

/* Returns the column whose shape is kept when rows are left out: the one people look at first. */
static int main_column(const struct hd_table *table)
{
    static const char *const names[] = {"eval_episode_return_mean", "reward_mean",
                                        "total_loss_avg"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (hd_table_find_column(table, names[i]) >= 0)
            return hd_table_find_column(table, names[i]);
    return HD_CURVES_FIRST;
}

static json_t *table_json(struct hd_table *table, int64_t max_rows)
{
    json_t *columns = json_pack("[s, s, s]", "update", "env_step", "s"), *rows = json_array();
    hd_table_downsample(table, main_column(table), max_rows);
    for (int i = 0; i < table->n_columns; i++)
        json_array_append_new(columns, text(table->columns[i]));
    for (int64_t r = 0; r < table->n_rows; r++) {
        const double *from = table->rows[r];
        json_t *row = json_array();
        for (int i = 0; i < HD_CURVES_FIRST + table->n_columns; i++)
            json_array_append_new(row, i < HD_CURVES_WALL ? whole(from[i]) : real(from[i]));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
}

static json_t *tables_json(struct hd_curves *curves, int64_t max_rows)
{
    json_t *tables = json_object();
    for (int i = 0; i < curves->n_tables; i++)
        json_object_set_new(tables, curves->tables[i].name,
                            table_json(&curves->tables[i], max_rows));
    return tables;
}

/* Keeps every k-th sample: they are counted from the start, so that the rates between them stay
 * true.
 */
static json_t *samples_json(const json_t *samples, int64_t max_rows)
{
    static const char *const names[] = {"s",         "update",     "env_step",
                                        "busy_s",    "gpu_busy_s", "waited_s",
                                        "exposed_s", "rss_bytes",  "peak_bytes"};
    enum { N_NAMES = sizeof names / sizeof *names };
    const size_t n = json_array_size(samples), step = n / (size_t)max_rows + 1;
    json_t *columns = json_array(), *rows = json_array();
    for (int i = 0; i < N_NAMES; i++)
        json_array_append_new(columns, json_string(names[i]));
    for (size_t r = 0; r < n; r = r + step < n || r + 1 == n ? r + step : n - 1) {
        const json_t *sample = json_array_get(samples, r);
        json_t *row = json_array();
        for (int i = 0; i < N_NAMES; i++) {
            const json_t *value = json_object_get(sample, names[i]);
            json_array_append_new(row, json_is_integer(value)
                                           ? json_integer(json_integer_value(value))
                                           : real(json_number_value(value)));
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
}

/* -- The trace --------------------------------------------------------------------------------- */

static json_t *sums_json(const struct hd_trace_file *trace)
{
    json_t *sums = json_array();
    for (int i = 0; i < trace->n_names; i++) {
        const struct hd_trace_sum *sum = &trace->sums[i];
        json_array_append_new(sums, json_pack("[o, b, I, o, o]", text(sum->name), (int)sum->wait,
                                              (json_int_t)sum->count, real(sum->busy_us * 1e-6),
                                              real(sum->any_us * 1e-6)));
    }
    return sums;
}

/* The lanes of the first rank come first. */
static json_t *lanes_json(const struct hd_trace_file *trace)
{
    json_t *lanes = json_array();
    for (int i = 0; i < trace->n_lanes && trace->lanes[i].rank == trace->rank; i++)
        json_array_append_new(lanes,
                              json_pack("[o, i, b]", text(trace->lanes[i].name),
                                        trace->lanes[i].rank, (int)trace->lanes[i].collectives));
    return lanes;
}

static bool is_own(const struct hd_trace_file *trace, const struct hd_trace_event *event)
{
    return trace->lanes[event->lane].rank == trace->rank;
}

/* The newest events of the first rank. */
struct shown {
    int32_t *places; /* [n_events]: number of an event among those shown, -1: not one of them */
    int64_t n, left_out;
    json_t *arrows;
};

static bool choose_shown(const struct hd_trace_file *trace, bool timeline, struct shown *shown)
{
    *shown = (struct shown){hd_alloc(trace->n_events, sizeof *shown->places), 0, 0, json_array()};
    for (int64_t i = 0; i < trace->n_events; i++)
        shown->n += is_own(trace, &trace->events[i]);
    if (!timeline || shown->n > EVENTS_MAX)
        shown->left_out = shown->n - (timeline ? EVENTS_MAX : 0);
    int64_t number = -shown->left_out;
    for (int64_t i = 0; shown->places && i < trace->n_events; i++) {
        const bool own = is_own(trace, &trace->events[i]);
        shown->places[i] = own && number >= 0 ? (int32_t)number : -1;
        number += own;
    }
    return shown->places && shown->arrows;
}

/* Lists the first rank's events that are shown (NULL: all) and that a stretch of time has part in,
 * six integers each: lane, name, time since the one before (the first: since the stretch began) and
 * duration in tenths of microseconds, iteration, shard. */
static json_t *events_json(const struct hd_trace_file *trace, const struct shown *shown,
                           double begin_us, double end_us)
{
    enum { TENTHS = 10 };
    json_t *events = json_array();
    int64_t before = llround(begin_us * TENTHS);
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        if (!is_own(trace, event) || (shown && shown->places[i] < 0) || event->begin_us > end_us ||
            event->end_us < begin_us)
            continue;
        const int64_t begin = llround(event->begin_us * TENTHS);
        const int64_t length = llround((event->end_us - event->begin_us) * TENTHS);
        const int64_t numbers[] = {event->lane, event->name,      begin - before,
                                   length,      event->iteration, event->shard};
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            json_array_append_new(events, json_integer((json_int_t)numbers[k]));
        before = begin;
    }
    return events;
}

struct arrows {
    const struct hd_trace_file *trace;
    const struct shown *shown;
};

/* Two integers each: the events that it leads from and to. */
static void add_arrow(void *arg, int64_t number, const struct hd_trace_event *from,
                      const struct hd_trace_event *to)
{
    const struct arrows *arrows = arg;
    const int32_t a = arrows->shown->places[from - arrows->trace->events],
                  b = arrows->shown->places[to - arrows->trace->events];
    (void)number;
    if (a < 0 || b < 0)
        return;
    json_array_append_new(arrows->shown->arrows, json_integer(a));
    json_array_append_new(arrows->shown->arrows, json_integer(b));
}

/* Rates that hold as bounds, in order: [name, rate], and steps: [name, gain]. */
static json_t *bounds_json(const struct hd_trace_file *trace)
{
    struct hd_bounds bounds;
    if (hd_bounds_find(trace, 0, &bounds) != HD_OK || bounds.iterations == 0)
        return json_null();
    const double n = bounds.units;
    json_t *rates = json_pack("[[s, o], [s, o]]", "work of the busiest worker",
                              real(n / bounds.work_s), "critical path", real(n / bounds.path_s));
    if (bounds.cable_s > 0)
        json_array_append_new(
            rates, json_pack("[s, o]", "bytes over the cable", real(n / bounds.cable_s)));
    json_t *steps = json_array();
    for (int i = 0; i < bounds.n_steps; i++)
        json_array_append_new(
            steps, json_pack("[s, o]", bounds.steps[i].name, real(bounds.steps[i].faster)));
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "of", bounds.unit, "iterations",
                     (json_int_t)bounds.iterations, "rate", real(n / bounds.seconds), "replayed",
                     real(n / bounds.replayed_s), "rates", rates, "steps", steps);
}

static json_t *trace_json(const struct hd_trace_file *trace, bool timeline)
{
    struct shown shown;
    if (!trace)
        return json_null();
    json_t *json = NULL;
    const struct arrows arrows = {trace, &shown};
    if (choose_shown(trace, timeline, &shown) &&
        (!timeline || hd_trace_each_flow(trace, add_arrow, (void *)&arrows) == HD_OK))
        json = json_pack(
            "{s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:b, s:I, s:I, s:o, s:o, s:o, s:O, s:o}",
            "begin_s", trace->begin_us * 1e-6, "end_s", trace->end_us * 1e-6, "worked_s",
            trace->worked_us * 1e-6, "waited_s", trace->waited_us * 1e-6, "exposed_s",
            trace->exposed_us * 1e-6, "workers", trace->workers, "rank", trace->rank, "cut",
            (int)(trace->cut || shown.left_out > 0), "n_events", (json_int_t)shown.n, "left_out",
            (json_int_t)shown.left_out, "sums", sums_json(trace), "lanes", lanes_json(trace),
            "events", events_json(trace, &shown, trace->begin_us, trace->end_us), "arrows",
            shown.arrows, "bounds", timeline ? bounds_json(trace) : json_null());
    json_decref(shown.arrows);
    hd_free(shown.places);
    return json;
}

/* Returns the iteration `back` before the last one, or the first of which the trace has all. */
static int64_t find_iteration(const struct hd_trace_file *trace, int64_t back)
{
    int64_t first = INT64_MAX, last = 0;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const int64_t iteration = trace->events[i].iteration;
        if (!is_own(trace, &trace->events[i]))
            continue;
        first = iteration < first ? iteration : first;
        last = iteration > last ? iteration : last;
    }
    const int64_t whole = trace->cut ? first + 1 : first;
    return last - back > whole ? last - back : whole;
}

json_t *hd_trace_file_build_json(const struct hd_trace_file *trace, int64_t back)
{
    const int64_t iteration = find_iteration(trace, back);
    double begin_us = INFINITY, end_us = -INFINITY;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        if (is_own(trace, event) && event->iteration == iteration &&
            !trace->lanes[event->lane].collectives) {
            begin_us = fmin(begin_us, event->begin_us);
            end_us = fmax(end_us, event->end_us);
        }
    }
    if (begin_us > end_us)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:i, s:o, s:o, s:o}", "iteration", (json_int_t)iteration,
                     "begin_s", begin_us * 1e-6, "end_s", end_us * 1e-6, "workers", trace->workers,
                     "sums", sums_json(trace), "lanes", lanes_json(trace), "events",
                     events_json(trace, NULL, begin_us, end_us));
}

/* -- All of it --------------------------------------------------------------------------------- */

static json_t *or_null(json_t *json)
{
    return json ? json_incref(json) : json_null();
}

json_t *hd_history_build_json(struct hd_history *history, bool timeline, int runs)
{
    const char *stop = hd_history_get_key(history, "env.stop_value");
    const int64_t rows = count_rows(runs);
    char *end;
    const double value = strtod(stop, &end);
    json_t *stop_value = end != stop && *end == '\0' ? real(value) : json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:O, s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "dir",
        text(history->dir), "name", text(hd_history_get_key(history, "exp_name")), "env",
        text(hd_history_get_key(history, "env.type")), "policy",
        text(hd_history_get_key(history, "policy.type")), "stop_value", stop_value, "yaml",
        text(history->config_text), "config", history->config, "result", or_null(history->result),
        "start", or_null(history->start), "end", or_null(history->end), "starts", history->starts,
        "samples", samples_json(history->samples, rows), "tables",
        tables_json(&history->curves, rows), "trace", trace_json(history->trace, timeline));
}
