/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/trace.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

enum { VERBS_MAX = HD_TRACE_VERBS };

/* -- Unions of intervals ----------------------------------------------------------------------- */
/* These count how long at least one of several workers was busy. How many are busy, and since when
 * at least one is, share one word, so that they change at once. */

enum { COUNT_BITS = 8, COUNT_MASK = (1 << COUNT_BITS) - 1 };

struct any {
    _Alignas(HD_ALIGNMENT) atomic_uint_fast64_t state; /* since << COUNT_BITS | count */
    atomic_int_fast64_t total_ns;
};

static void enter(struct any *any, int64_t now_ns)
{
    uint_fast64_t old = atomic_load_explicit(&any->state, memory_order_relaxed), new;
    do {
        new = old &COUNT_MASK ? old + 1 : (uint_fast64_t)now_ns << COUNT_BITS | 1;
    } while (!atomic_compare_exchange_weak(&any->state, &old, new));
}

static void leave(struct any *any, int64_t now_ns)
{
    uint_fast64_t old = atomic_fetch_sub(&any->state, 1);
    if ((old & COUNT_MASK) == 1)
        atomic_fetch_add_explicit(&any->total_ns, now_ns - (int64_t)(old >> COUNT_BITS),
                                  memory_order_relaxed);
}

static int64_t any_until(const struct any *any, int64_t now_ns)
{
    uint_fast64_t state = atomic_load(&any->state);
    int64_t open_ns = state & COUNT_MASK ? now_ns - (int64_t)(state >> COUNT_BITS) : 0;
    return atomic_load_explicit(&any->total_ns, memory_order_relaxed) + open_ns;
}

/* -- Lanes ------------------------------------------------------------------------------------- */

/* Its worker is the only writer; totals may be read at any time, rings only while no worker runs.
 */
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
    struct hd_trace_options options;
    int workers, n_lanes;
    int64_t capacity;
    struct hd_timing timings[VERBS_MAX + 1];

    struct any any_body;
    pthread_mutex_t waits_lock;
    int n_waits;                       /* collectives that wait now */
    int64_t marked_ns, busy_marked_ns; /* when one last began or ended to wait */
    atomic_int_fast64_t exposed_ns;

    struct lane lanes[];
};

int hd_trace_create(const struct hd_trace_options *options, struct hd_trace **trace_p)
{
    struct hd_trace *trace = hd_alloc(
        1, sizeof *trace + (size_t)(options->workers + options->channels) * sizeof(struct lane));
    if (!trace)
        return HD_ERR_NOMEM;
    trace->options = *options;
    trace->workers = options->workers;
    trace->capacity = options->capacity;
    trace->n_lanes = options->workers + options->channels;
    pthread_mutex_init(&trace->waits_lock, NULL);
    for (int i = 0; i < trace->n_lanes && trace->capacity > 0; i++) {
        trace->lanes[i].ring = hd_alloc(trace->capacity, sizeof *trace->lanes[i].ring);
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
    for (int i = 0; i < trace->n_lanes; i++)
        hd_free(trace->lanes[i].ring);
    pthread_mutex_destroy(&trace->waits_lock);
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

static void record(struct hd_trace *trace, struct lane *lane, int verb,
                   const struct hd_event *event)
{
    add(&lane->verbs[verb].count, 1);
    add(&lane->verbs[verb].busy_ns, event->end_ns - event->begin_ns);
    if (atomic_load_explicit(&lane->first_ns, memory_order_relaxed) == 0)
        atomic_store_explicit(&lane->first_ns, event->begin_ns, memory_order_relaxed);
    if (trace->capacity > 0)
        lane->ring[lane->recorded++ % trace->capacity] = *event;
}

void hd_trace_begin(struct hd_trace *trace, int64_t now_ns)
{
    if (trace->options.channels > 0)
        enter(&trace->any_body, now_ns);
}

void hd_trace_end(struct hd_trace *trace, int number, const char *verb,
                  const struct hd_event *event)
{
    struct lane *lane = &trace->lanes[number];
    record(trace, lane, find_verb(lane, verb), event);
    if (trace->options.channels > 0)
        leave(&trace->any_body, event->end_ns);
}

/* Counts the time since the last mark as exposed, as far as collectives waited and nobody worked.
 */
static void mark(struct hd_trace *trace, int64_t now_ns)
{
    if (now_ns < trace->marked_ns) /* another thread was faster */
        return;
    const int64_t busy_ns = any_until(&trace->any_body, now_ns);
    const int64_t exposed_ns = now_ns - trace->marked_ns - (busy_ns - trace->busy_marked_ns);
    if (trace->n_waits > 0 && exposed_ns > 0)
        add(&trace->exposed_ns, exposed_ns);
    trace->marked_ns = now_ns;
    trace->busy_marked_ns = busy_ns;
}

void hd_trace_open(struct hd_trace *trace, int64_t now_ns)
{
    pthread_mutex_lock(&trace->waits_lock);
    mark(trace, now_ns);
    trace->n_waits++;
    pthread_mutex_unlock(&trace->waits_lock);
}

void hd_trace_close(struct hd_trace *trace, int channel, const struct hd_event *event)
{
    struct lane *lane = &trace->lanes[trace->workers + channel];
    pthread_mutex_lock(&trace->waits_lock);
    mark(trace, event->end_ns);
    trace->n_waits--;
    record(trace, lane, find_verb(lane, "wait"), event);
    pthread_mutex_unlock(&trace->waits_lock);
}

void hd_trace_read_timings(const struct hd_trace *trace, struct hd_timing *timings_p)
{
    int n = 0;
    for (int w = 0; w < trace->workers; w++) {
        const struct lane *lane = &trace->lanes[w];
        int known = atomic_load_explicit(&lane->n_verbs, memory_order_acquire);
        for (int i = 0; i < known; i++) {
            int j = 0;
            while (j < n && timings_p[j].verb != lane->verbs[i].verb)
                j++;
            if (j == VERBS_MAX)
                continue;
            if (j == n)
                timings_p[n++] = (struct hd_timing){.verb = lane->verbs[i].verb};
            timings_p[j].count += atomic_load_explicit(&lane->verbs[i].count, memory_order_relaxed);
            timings_p[j].busy_ns +=
                atomic_load_explicit(&lane->verbs[i].busy_ns, memory_order_relaxed);
        }
    }
    timings_p[n] = (struct hd_timing){0};
}

const struct hd_timing *hd_trace_get_timings(struct hd_trace *trace)
{
    hd_trace_read_timings(trace, trace->timings);
    return trace->timings;
}

static void sum_lane(const struct lane *lane, int64_t *busy_ns_p, int64_t *tasks_p)
{
    for (int i = 0; i < atomic_load_explicit(&lane->n_verbs, memory_order_acquire); i++) {
        *busy_ns_p += atomic_load_explicit(&lane->verbs[i].busy_ns, memory_order_relaxed);
        *tasks_p += atomic_load_explicit(&lane->verbs[i].count, memory_order_relaxed);
    }
}

struct hd_trace_totals hd_trace_get_totals(const struct hd_trace *trace)
{
    const int cpus = trace->workers - trace->options.gpus;
    struct hd_trace_totals totals = {
        .exposed_ns = atomic_load_explicit(&trace->exposed_ns, memory_order_relaxed)};
    int64_t waits = 0;
    for (int i = 0; i < trace->n_lanes; i++) {
        const struct lane *lane = &trace->lanes[i];
        const int64_t first_ns = atomic_load_explicit(&lane->first_ns, memory_order_relaxed);
        const bool works = i < trace->workers;
        int64_t *sum = i < cpus ? &totals.busy_ns : works ? &totals.gpu_busy_ns : &totals.waited_ns;
        int64_t busy_ns = 0;
        sum_lane(lane, &busy_ns, works ? &totals.tasks : &waits);
        *sum += busy_ns;
        if (works && busy_ns > totals.busiest_ns)
            totals.busiest_ns = busy_ns;
        if (works && first_ns && (!totals.first_ns || first_ns < totals.first_ns))
            totals.first_ns = first_ns;
    }
    return totals;
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
            "\"args\":{\"iteration\":%d,\"shard\":%d,\"part\":%d,\"item\":%d,\"stage\":%d,"
            "\"task\":%" PRId64 ",\"fused\":%d}}",
            event->name, rank, worker, (double)(event->begin_ns - origin_ns) * 1e-3,
            (double)(event->end_ns - event->begin_ns) * 1e-3, event->iteration, event->shard,
            event->bucket, event->item, event->stage, event->number, event->fused);
}

void hd_trace_write(const struct hd_trace *trace, FILE *file, int rank, int64_t origin_ns)
{
    fprintf(file,
            "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
            "{\"name\":\"rank %d\"}}",
            rank, rank);
    for (int w = 0; w < trace->n_lanes; w++) {
        const struct lane *lane = &trace->lanes[w];
        write_lane_name(file, rank, w, trace->workers);
        int64_t kept = lane->recorded < trace->capacity ? lane->recorded : trace->capacity;
        for (int64_t i = lane->recorded - kept; i < lane->recorded; i++)
            write_event(file, &lane->ring[i % trace->capacity], rank, w, origin_ns);
    }
    fprintf(file, "\n]");
}
