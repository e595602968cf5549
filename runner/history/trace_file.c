/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what hd_trace_write writes: a line an event. */
#include "runner/history/trace_file.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_lane(struct hd_trace_file *trace, int rank, int tid)
{
    int i = trace->n_lanes - 1;
    while (i >= 0 && (trace->lanes[i].rank != rank || trace->lanes[i].tid != tid))
        i--;
    return i;
}

static int find_name(struct hd_trace_file *trace, const char *name, bool wait)
{
    int i = 0;
    while (i < trace->n_names &&
           (trace->sums[i].wait != wait || strcmp(trace->sums[i].name, name) != 0))
        i++;
    if (i == HD_TRACE_NAMES)
        return HD_TRACE_NAMES - 1;
    if (i == trace->n_names) {
        snprintf(trace->sums[i].name, HD_TRACE_NAME_BYTES, "%s", name);
        trace->sums[i].wait = wait;
        trace->n_names++;
    }
    return i;
}

static bool read_lane(struct hd_trace_file *trace, const char *line)
{
    struct hd_trace_lane lane = {0};
    if (sscanf(line,
               "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
               "{\"name\":\"%63[^\"]\"}}",
               &lane.rank, &lane.tid, lane.name) != 3 ||
        trace->n_lanes == HD_TRACE_LANES)
        return false;
    lane.collectives = strcmp(lane.name, "collectives") == 0;
    trace->workers += !lane.collectives;
    trace->lanes[trace->n_lanes++] = lane;
    return true;
}

static bool read_event(struct hd_trace_file *trace, const char *line, int *status_p)
{
    char name[HD_TRACE_NAME_BYTES];
    int rank, tid, iteration, shard, bucket;
    double begin_us, length_us;
    if (sscanf(line,
               "{\"name\":\"%63[^\"]\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lf,\"dur\":%lf,"
               "\"args\":{\"iteration\":%d,\"shard\":%d,\"part\":%d",
               name, &rank, &tid, &begin_us, &length_us, &iteration, &shard, &bucket) != 8)
        return false;
    const int lane = find_lane(trace, rank, tid);
    if (lane < 0 || length_us < 0)
        return false;
    *status_p = hd_grow((void **)&trace->events, &trace->capacity, trace->n_events + 1,
                        sizeof *trace->events);
    if (*status_p != HD_OK)
        return false;
    trace->events[trace->n_events++] = (struct hd_trace_event){
        .begin_us = begin_us,
        .end_us = begin_us + length_us,
        .iteration = iteration,
        .lane = (int16_t)lane,
        .name = (int16_t)find_name(trace, name, trace->lanes[lane].collectives),
        .shard = (int16_t)shard,
    };
    return true;
}

static int read_lines(struct hd_trace_file *trace, const char *path, char *content)
{
    int64_t number = 1;
    int status = HD_OK;
    char *line = content, *next;
    if (strncmp(line, "{\"traceEvents\":[\n", 17) != 0)
        return hd_fail(HD_ERR_FORMAT, "%s is not a trace that runner wrote", path);
    for (line = strchr(line, '\n') + 1; *line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (strcmp(line, "]}") == 0)
            return HD_OK;
        const bool known = strncmp(line, "{\"name\":\"process_name\"", 22) == 0 ||
                           read_lane(trace, line) || read_event(trace, line, &status);
        HD_TRY(status);
        if (!known || !next)
            break;
    }
    return hd_fail(HD_ERR_FORMAT, "%s:%lld: the trace is damaged, or ends early", path,
                   (long long)number + 1);
}

static int by_begin(const void *a, const void *b)
{
    const struct hd_trace_event *x = a, *y = b;
    return (x->begin_us > y->begin_us) - (x->begin_us < y->begin_us);
}

/* Lanes whose rings were full begin later than others; what is before all of them have begun would
 * look as if they had been idle. */
static void drop_uneven_start(struct hd_trace_file *trace)
{
    int64_t counts[HD_TRACE_LANES] = {0}, kept = 0;
    double firsts[HD_TRACE_LANES], from_us = -1e300;
    for (int64_t i = trace->n_events - 1; i >= 0; i--) {
        counts[trace->events[i].lane]++;
        firsts[trace->events[i].lane] = trace->events[i].begin_us;
    }
    for (int lane = 0; lane < trace->n_lanes; lane++)
        if (counts[lane] >= HD_TRACE_RING && firsts[lane] > from_us)
            from_us = firsts[lane];
    for (int64_t i = 0; i < trace->n_events; i++)
        if (trace->events[i].begin_us >= from_us)
            trace->events[kept++] = trace->events[i];
    trace->cut = from_us > -1e300;
    trace->n_events = kept;
}

/* Adds [begin, end) to a union whose latest end is *until; intervals come in order of begin. */
static void cover(double begin, double end, double *until, double *total)
{
    if (end <= *until)
        return;
    *total += end - (begin > *until ? begin : *until);
    *until = end;
}

/* Adds up events, which are in order. Time is exposed when the union of all intervals has it and
 * that of the bodies has not. */
static void add_up(struct hd_trace_file *trace)
{
    double work_until = -1e300, wait_until = -1e300, all_until = -1e300, all_us = 0;
    for (int i = 0; i < trace->n_names; i++)
        trace->sums[i].until_us = -1e300;
    if (trace->n_events > 0)
        trace->begin_us = trace->events[0].begin_us;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        struct hd_trace_sum *sum = &trace->sums[event->name];
        sum->count++;
        sum->busy_us += event->end_us - event->begin_us;
        cover(event->begin_us, event->end_us, &sum->until_us, &sum->any_us);
        cover(event->begin_us, event->end_us, &all_until, &all_us);
        if (sum->wait)
            cover(event->begin_us, event->end_us, &wait_until, &trace->waited_us);
        else
            cover(event->begin_us, event->end_us, &work_until, &trace->worked_us);
    }
    trace->end_us = trace->n_events > 0 ? all_until : 0;
    trace->exposed_us = all_us - trace->worked_us;
}

int hd_trace_file_read(const char *path, struct hd_trace_file **trace_p)
{
    char *content;
    HD_TRY(hd_file_read(path, HD_INPUT_RUN, &content, NULL));
    struct hd_trace_file *trace = hd_alloc(1, sizeof *trace);
    int status = trace ? read_lines(trace, path, content) : HD_ERR_NOMEM;
    hd_free(content);
    if (status != HD_OK) {
        hd_trace_file_release(trace);
        return status;
    }
    if (trace->n_events > 0)
        qsort(trace->events, (size_t)trace->n_events, sizeof *trace->events, by_begin);
    drop_uneven_start(trace);
    add_up(trace);
    *trace_p = trace;
    return HD_OK;
}

void hd_trace_file_release(struct hd_trace_file *trace)
{
    if (!trace)
        return;
    hd_free(trace->events);
    hd_free(trace);
}
