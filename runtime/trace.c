/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/trace.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <stdatomic.h>

enum { VERBS_MAX = 64 };

/* One writer, its worker; totals may be read at any time, rings only at rest. */
struct lane {
    _Alignas(HD_ALIGNMENT) atomic_int n_verbs;
    struct {
        const char *verb;
        atomic_int_fast64_t count, busy_ns;
    } verbs[VERBS_MAX];
    struct hd_event *ring;
    int64_t recorded;
    atomic_int_fast64_t first_ns;
};

struct hd_trace {
    int workers;
    int64_t capacity;
    struct hd_timing timings[VERBS_MAX + 1];
    struct lane lanes[];
};

int hd_trace_create(int workers, int64_t capacity, struct hd_trace **trace_p)
{
    struct hd_trace *trace =
        hd_alloc(1, sizeof *trace + (size_t)(workers + 1) * sizeof(struct lane));
    if (!trace)
        return HD_ERR_NOMEM;
    trace->workers = workers;
    trace->capacity = capacity;
    for (int i = 0; i <= workers && capacity > 0; i++) {
        trace->lanes[i].ring = hd_alloc(capacity, sizeof *trace->lanes[i].ring);
        if (!trace->lanes[i].ring) {
            hd_trace_destroy(trace);
            return HD_ERR_NOMEM;
        }
    }
    *trace_p = trace;
    return HD_OK;
}

void hd_trace_destroy(struct hd_trace *trace)
{
    if (!trace)
        return;
    for (int i = 0; i <= trace->workers; i++)
        hd_free(trace->lanes[i].ring);
    hd_free(trace);
}

static void add(atomic_int_fast64_t *total, int64_t amount)
{
    atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

static int find_verb(struct lane *lane, const char *verb)
{
    int n = atomic_load_explicit(&lane->n_verbs, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        if (lane->verbs[i].verb == verb)
            return i;
    if (n == VERBS_MAX)
        return n - 1;
    lane->verbs[n].verb = verb;
    atomic_store_explicit(&lane->n_verbs, n + 1, memory_order_release);
    return n;
}

void hd_trace_record(struct hd_trace *trace, int number, const char *verb,
                     const struct hd_event *event)
{
    struct lane *lane = &trace->lanes[number];
    int i = find_verb(lane, verb);
    add(&lane->verbs[i].count, 1);
    add(&lane->verbs[i].busy_ns, event->end_ns - event->begin_ns);
    if (atomic_load_explicit(&lane->first_ns, memory_order_relaxed) == 0)
        atomic_store_explicit(&lane->first_ns, event->begin_ns, memory_order_relaxed);
    if (trace->capacity > 0)
        lane->ring[lane->recorded++ % trace->capacity] = *event;
}

const struct hd_timing *hd_trace_timings(struct hd_trace *trace)
{
    int n = 0;
    for (int w = 0; w < trace->workers; w++) {
        struct lane *lane = &trace->lanes[w];
        int known = atomic_load_explicit(&lane->n_verbs, memory_order_acquire);
        for (int i = 0; i < known; i++) {
            int j = 0;
            while (j < n && trace->timings[j].verb != lane->verbs[i].verb)
                j++;
            if (j == VERBS_MAX)
                continue;
            if (j == n)
                trace->timings[n++] = (struct hd_timing){.verb = lane->verbs[i].verb};
            trace->timings[j].count +=
                atomic_load_explicit(&lane->verbs[i].count, memory_order_relaxed);
            trace->timings[j].busy_ns +=
                atomic_load_explicit(&lane->verbs[i].busy_ns, memory_order_relaxed);
        }
    }
    trace->timings[n] = (struct hd_timing){0};
    return trace->timings;
}

static void sum_lane(const struct lane *lane, int64_t *busy_ns_p, int64_t *tasks_p)
{
    for (int i = 0; i < atomic_load_explicit(&lane->n_verbs, memory_order_acquire); i++) {
        *busy_ns_p += atomic_load_explicit(&lane->verbs[i].busy_ns, memory_order_relaxed);
        *tasks_p += atomic_load_explicit(&lane->verbs[i].count, memory_order_relaxed);
    }
}

void hd_trace_totals(const struct hd_trace *trace, int64_t *busy_ns_p, int64_t *tasks_p)
{
    *busy_ns_p = *tasks_p = 0;
    for (int w = 0; w < trace->workers; w++)
        sum_lane(&trace->lanes[w], busy_ns_p, tasks_p);
}

int64_t hd_trace_waited_ns(const struct hd_trace *trace)
{
    int64_t waited_ns = 0, waits = 0;
    sum_lane(&trace->lanes[trace->workers], &waited_ns, &waits);
    return waited_ns;
}

int64_t hd_trace_first_ns(const struct hd_trace *trace)
{
    int64_t first = 0;
    for (int w = 0; w < trace->workers; w++) {
        int64_t begin = atomic_load_explicit(&trace->lanes[w].first_ns, memory_order_relaxed);
        if (begin && (!first || begin < first))
            first = begin;
    }
    return first;
}

static void write_lane_name(FILE *file, int rank, int lane, int workers)
{
    char name[32] = "collectives";
    if (lane < workers)
        snprintf(name, sizeof name, "worker %d", lane);
    fprintf(file,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
            "{\"name\":\"%s\"}}",
            rank, lane, name);
}

static void write_event(FILE *file, const struct hd_event *event, int rank, int worker,
                        int64_t origin_ns)
{
    fprintf(file,
            ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"iteration\":%d,\"shard\":%d,\"part\":%d}}",
            event->name, rank, worker, (double)(event->begin_ns - origin_ns) * 1e-3,
            (double)(event->end_ns - event->begin_ns) * 1e-3, event->iteration, event->shard,
            event->part);
}

int hd_trace_write(const struct hd_trace *trace, const char *path, int rank, int64_t origin_ns)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return hd_fail(HD_ERR_SYSTEM, "the trace %s cannot be written: %m", path);
    fprintf(file,
            "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
            "{\"name\":\"rank %d\"}}",
            rank, rank);
    for (int w = 0; w <= trace->workers; w++) {
        const struct lane *lane = &trace->lanes[w];
        write_lane_name(file, rank, w, trace->workers);
        int64_t kept = lane->recorded < trace->capacity ? lane->recorded : trace->capacity;
        for (int64_t i = lane->recorded - kept; i < lane->recorded; i++)
            write_event(file, &lane->ring[i % trace->capacity], rank, w, origin_ns);
    }
    fprintf(file, "\n]}\n");
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return hd_fail(HD_ERR_SYSTEM, "the trace %s cannot be written: %m", path);
    return HD_OK;
}
