/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace as JSON for Perfetto and chrome://tracing, and for hd_trace_file_read. */
#include "runner/trace/derived.h"
#include "runner/trace/write.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>

static void write_lanes(const struct hd_trace_file *trace, FILE *file)
{
    int before = -1;
    for (int i = 0; i < trace->n_lanes; i++) {
        const struct hd_trace_lane *lane = &trace->lanes[i];
        if (lane->rank != before)
            fprintf(file,
                    "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
                    "{\"name\":\"rank %d\"}}",
                    i > 0 ? ",\n" : "", lane->rank, lane->rank);
        before = lane->rank;
        fprintf(file,
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
                "{\"name\":\"%s\"}}",
                lane->rank, lane->tid, lane->name);
    }
}

static void write_events(const struct hd_trace_file *trace, FILE *file)
{
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        const struct hd_trace_lane *lane = &trace->lanes[event->lane];
        const struct hd_trace_task *task = event->task >= 0 ? &trace->tasks[event->task] : NULL;
        fprintf(file,
                ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                "\"args\":{\"iteration\":%d,\"shard\":%d,\"part\":%d,\"item\":%d,\"stage\":%d,"
                "\"task\":%d,\"fused\":%d}}",
                trace->sums[event->name].name, lane->rank, lane->tid, event->begin_us,
                event->end_us - event->begin_us, event->iteration, event->shard, event->bucket,
                event->item, event->stage, task ? task->number : 0, event->fused);
    }
}

struct writing {
    const struct hd_trace_file *trace;
    FILE *file;
};

/* An arrow's end belongs to the event that encloses its time. */
static void write_end(const struct writing *writing, const char *kind, int64_t number,
                      const struct hd_trace_event *event)
{
    const struct hd_trace_lane *lane = &writing->trace->lanes[event->lane];
    fprintf(writing->file,
            ",\n{\"ph\":\"%s,\"id\":%lld,\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"name\":\"after\","
            "\"cat\":\"task\"}",
            kind, (long long)number, lane->rank, lane->tid, event->begin_us);
}

static void write_flow(void *arg, int64_t number, const struct hd_trace_event *from,
                       const struct hd_trace_event *to)
{
    write_end(arg, "s\"", number, from);
    write_end(arg, "f\",\"bp\":\"e\"", number, to);
}

static int write_counts(const struct hd_trace_file *trace, FILE *file)
{
    struct hd_trace_count *counts;
    int64_t n;
    HD_TRY(hd_trace_count(trace, &counts, &n));
    for (int64_t i = 0; i < n; i++)
        fprintf(
            file,
            ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":\"%s\",\"args\":{\"value\":%lld}}",
            counts[i].rank, counts[i].us, hd_trace_counter_get_name(counts[i].counter),
            (long long)counts[i].value);
    hd_free(counts);
    return HD_OK;
}

static void write_task(const struct hd_trace_file *trace, int64_t i, FILE *file)
{
    const struct hd_trace_task *task = &trace->tasks[i];
    const bool waits = task->at.kind == HD_SUBMITTED_WAIT;
    hd_submitted_write(&task->at, &task->exchange, task->rank, task->number,
                       waits ? "wait" : trace->sums[task->at.name].name, task->at_us, file);
    for (int64_t k = task->before; k < task[1].before; k++)
        fprintf(file, "%s%d", k > task->before ? "," : "", trace->before[k]);
    fputs(i + 1 < trace->n_tasks ? "]]," : "]]", file);
}

int hd_trace_file_write_json(const struct hd_trace_file *trace, FILE *file)
{
    struct writing writing = {trace, file};
    fputs("{\"traceEvents\":[\n", file);
    write_lanes(trace, file);
    write_events(trace, file);
    HD_TRY(hd_trace_each_flow(trace, write_flow, &writing));
    HD_TRY(write_counts(trace, file));
    fprintf(
        file,
        "\n],\n\"clock\":{\"hosts\":%d,\"ranks_of_a_host\":%d,\"error_us\":%.3f,\"about\":\"%s\"}"
        ",\n\"iterations\":[",
        trace->hosts.n, trace->hosts.ranks,
        isfinite(trace->clock_error_us) ? trace->clock_error_us : -1, trace->clock);
    for (int64_t i = 0; i < trace->n_iterations; i++) {
        const struct hd_trace_iteration *at = &trace->iterations[i];
        fprintf(file, "%s\n[%d,%lld,%d,%lld,%.3f]", i > 0 ? "," : "", at->rank,
                (long long)at->iteration, at->number, (long long)at->updates, at->at_us);
    }
    fputs("\n],\n\"tasks\":[", file);
    for (int64_t i = 0; i < trace->n_tasks; i++)
        write_task(trace, i, file);
    fputs("\n]}\n", file);
    return HD_OK;
}
