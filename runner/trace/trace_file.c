/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/trace/trace_file_internal.h"
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
    trace->lanes[trace->n_lanes++] = lane;
    return true;
}

static bool read_event(struct hd_trace_file *trace, const char *line, int *status_p)
{
    char name[HD_TRACE_NAME_BYTES];
    int rank, tid, iteration, shard, bucket, item = 0, stage = 0, task = 0, fused = 0;
    double begin_us, length_us;
    if (sscanf(line,
               "{\"name\":\"%63[^\"]\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lf,\"dur\":%lf,"
               "\"args\":{\"iteration\":%d,\"shard\":%d,\"part\":%d,\"item\":%d,\"stage\":%d,"
               "\"task\":%d,\"fused\":%d",
               name, &rank, &tid, &begin_us, &length_us, &iteration, &shard, &bucket, &item, &stage,
               &task, &fused) < 8)
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
        .bucket = (int16_t)bucket,
        .item = (int16_t)item,
        .stage = (int16_t)stage,
        .task = task, /* its number, until all is read */
        .fused = (int16_t)fused,
        .lane = (int16_t)lane,
        .name = (int16_t)find_name(trace, name, trace->lanes[lane].collectives),
        .shard = (int16_t)shard,
    };
    return true;
}

/* The names of tasks are those of events. */
static bool read_task(struct hd_trace_file *trace, const char *line, int *status_p)
{
    char name[HD_TRACE_NAME_BYTES];
    int kind, scope, flags, length = 0;
    struct hd_trace_task task = {.event = -1, .last = -1, .before = trace->n_before};
    long long sequence, out, in;
    if (sscanf(line,
               "[%d,%d,\"%63[^\"]\",%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%lld,%d,%d,%lld,%lld,%lf,[%n",
               &task.rank, &task.number, name, &kind, &scope, &task.at.iteration, &task.at.shard,
               &task.at.bucket, &task.at.item, &task.at.stage, &task.at.priority, &task.at.home,
               &flags, &sequence, &task.exchange.peer, &task.exchange.messages, &out, &in,
               &task.at_us, &length) != 19 ||
        length == 0 || kind < HD_SUBMITTED_TASK || kind > HD_SUBMITTED_WAIT || task.at.home < 0 ||
        task.at.home > HD_DEVICES_MAX || task.rank < 0 || task.rank >= HD_WORLD_MAX)
        return false;
    task.at.kind = (enum hd_submitted_kind)kind;
    task.at.scope = (enum hd_sync_scope)scope;
    task.at.background = flags & 1;
    task.at.waits = flags & 2;
    task.at.sequence = sequence;
    task.exchange.out_bytes = out;
    task.exchange.in_bytes = in;
    task.at.name =
        kind == HD_SUBMITTED_WAIT ? 0 : find_name(trace, name, kind == HD_SUBMITTED_SYNC);
    const struct hd_trace_task *last =
        trace->n_tasks > 0 ? &trace->tasks[trace->n_tasks - 1] : NULL;
    if (last && last->rank == task.rank && last->number + 1 != task.number)
        return false;
    char *end;
    for (const char *at = line + length; *at >= '0' && *at <= '9';
         at = *end == ',' ? end + 1 : end) {
        *status_p = hd_grow((void **)&trace->before, &trace->before_capacity, trace->n_before + 1,
                            sizeof *trace->before);
        if (*status_p != HD_OK)
            return false;
        trace->before[trace->n_before++] = (int)strtol(at, &end, 10);
    }
    *status_p = hd_grow((void **)&trace->tasks, &trace->tasks_capacity, trace->n_tasks + 2,
                        sizeof *trace->tasks);
    if (*status_p != HD_OK)
        return false;
    trace->tasks[trace->n_tasks++] = task;
    trace->tasks[trace->n_tasks].before = trace->n_before;
    return true;
}

static bool read_iteration(struct hd_trace_file *trace, const char *line, int *status_p)
{
    struct hd_trace_iteration one;
    long long iteration, updates;
    if (sscanf(line, "[%d,%lld,%d,%lld,%lf]", &one.rank, &iteration, &one.number, &updates,
               &one.at_us) != 5)
        return false;
    one.iteration = iteration;
    one.updates = updates;
    *status_p = hd_grow((void **)&trace->iterations, &trace->iterations_capacity,
                        trace->n_iterations + 1, sizeof *trace->iterations);
    if (*status_p == HD_OK)
        trace->iterations[trace->n_iterations++] = one;
    return *status_p == HD_OK;
}

/* The one line of the member "clock"; see hd_trace_file_write_json. */
static bool read_clock(struct hd_trace_file *trace, const char *line)
{
    return sscanf(line,
                  "\"clock\":{\"hosts\":%d,\"ranks_of_a_host\":%d,\"error_us\":%lf,\"about\":\"%"
                  "255[^\"]",
                  &trace->hosts.n, &trace->hosts.ranks, &trace->clock_error_us, trace->clock) >= 3;
}

/* Reads a line of the member that `list` stands for: t(raceEvents), i(terations), T(asks). */
static bool read_line(struct hd_trace_file *trace, const char *line, char *list, int *status_p)
{
    if (strncmp(line, "\"iterations\":[", 14) == 0)
        *list = 'i';
    else if (strncmp(line, "\"tasks\":[", 9) == 0)
        *list = 'T';
    else if (strncmp(line, "\"clock\":", 8) == 0)
        return read_clock(trace, line);
    else if (*list == 'i' && line[0] == '[')
        return read_iteration(trace, line, status_p);
    else if (*list == 'T' && line[0] == '[')
        return read_task(trace, line, status_p);
    else if (strcmp(line, "],") != 0)
        return strncmp(line, "{\"name\":\"process_name\"", 22) == 0 ||
               strncmp(line, "{\"ph\":", 6) == 0 || read_lane(trace, line) ||
               read_event(trace, line, status_p);
    return true;
}

int hd_trace_read_lines(struct hd_trace_file *trace, const char *path, char *content)
{
    int64_t number = 1;
    int status = HD_OK;
    char *line = content, *next, list = 't';
    if (strncmp(line, "{\"traceEvents\":[\n", 17) != 0)
        return hd_fail(HD_ERR_FORMAT, "%s is not a trace that runner wrote", path);
    for (line = strchr(line, '\n') + 1; *line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (strcmp(line, "]}") == 0)
            return HD_OK;
        const bool known = read_line(trace, line, &list, &status);
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

/* Adds up the first rank's events, which are in order. Time is exposed when the union of all
 * intervals has it and that of the bodies has not. */
static void add_up(struct hd_trace_file *trace)
{
    double work_until = -1e300, wait_until = -1e300, all_until = -1e300, all_us = 0;
    for (int i = 0; i < trace->n_names; i++)
        trace->sums[i].until_us = -1e300;
    for (int i = 0; i < trace->n_lanes; i++)
        trace->workers += trace->lanes[i].rank == trace->rank && !trace->lanes[i].collectives;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        if (trace->lanes[event->lane].rank != trace->rank)
            continue;
        if (all_until == -1e300)
            trace->begin_us = event->begin_us;
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
    trace->end_us = all_until > -1e300 ? all_until : 0;
    trace->exposed_us = all_us - trace->worked_us;
}

const struct hd_trace_task *hd_trace_file_find_task(const struct hd_trace_file *trace, int rank,
                                                    int number)
{
    int64_t low = 0, high = trace->n_tasks;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const struct hd_trace_task *task = &trace->tasks[middle];
        if (task->rank < rank || (task->rank == rank && task->number < number))
            low = middle + 1;
        else
            high = middle;
    }
    const struct hd_trace_task *task = &trace->tasks[low];
    return low < trace->n_tasks && task->rank == rank && task->number == number ? task : NULL;
}

/* Tells tasks of their events, and events of their tasks. */
static void join_tasks(struct hd_trace_file *trace)
{
    for (int64_t i = 0; i < trace->n_events; i++) {
        struct hd_trace_event *event = &trace->events[i];
        const struct hd_trace_task *found =
            event->task > 0
                ? hd_trace_file_find_task(trace, trace->lanes[event->lane].rank, event->task)
                : NULL;
        event->task = found ? (int32_t)(found - trace->tasks) : -1;
        for (int k = 0; found && k <= event->fused && event->task + k < trace->n_tasks; k++) {
            struct hd_trace_task *task = &trace->tasks[event->task + k];
            if (task->event < 0) {
                task->event = i;
                task->begin_us = event->begin_us;
            }
            task->last = i;
            task->end_us = event->end_us > task->end_us ? event->end_us : task->end_us;
            task->work_us += k == 0 ? event->end_us - event->begin_us : 0;
        }
    }
    for (int64_t i = 0; i < trace->n_tasks; i++)
        if (trace->tasks[i].at.waits && trace->tasks[i].event >= 0)
            trace->tasks[i].work_us = trace->tasks[i].end_us - trace->tasks[i].begin_us;
}

static void find_ranks(struct hd_trace_file *trace)
{
    trace->rank = trace->n_lanes > 0 ? trace->lanes[0].rank : 0;
    for (int i = 0; i < trace->n_lanes; i++)
        if (trace->lanes[i].rank >= trace->ranks)
            trace->ranks = trace->lanes[i].rank + 1;
    for (int64_t i = 0; i < trace->n_tasks; i++)
        if (trace->tasks[i].at.home > trace->gpus)
            trace->gpus = trace->tasks[i].at.home;
}

static void sort_events(struct hd_trace_file *trace)
{
    if (trace->n_events > 0)
        qsort(trace->events, (size_t)trace->n_events, sizeof *trace->events, by_begin);
}

void hd_trace_complete(struct hd_trace_file *trace)
{
    find_ranks(trace);
    sort_events(trace);
    drop_uneven_start(trace);
    join_tasks(trace);
    add_up(trace);
}

int hd_trace_file_read(const char *path, struct hd_trace_file **trace_p)
{
    char *content;
    HD_TRY(hd_file_read(path, HD_INPUT_RUN, &content, NULL));
    struct hd_trace_file *trace = hd_alloc(1, sizeof *trace);
    int status = trace ? hd_trace_read_lines(trace, path, content) : HD_ERR_NOMEM;
    hd_free(content);
    if (status != HD_OK) {
        hd_trace_file_release(trace);
        return status;
    }
    hd_trace_complete(trace);
    *trace_p = trace;
    return HD_OK;
}

void hd_trace_file_release(struct hd_trace_file *trace)
{
    if (!trace)
        return;
    hd_free(trace->events);
    hd_free(trace->tasks);
    hd_free(trace->before);
    hd_free(trace->iterations);
    hd_free(trace);
}
