/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of hosts, from sync points: no rank passes one of all ranks before each has arrived, and
 * none passes one of a pair before the other has, if it receives something. So for any hosts a and
 * b, what is to be added to a's clock is at most limit[a][b] more than what is to be added to b's.
 */
#include "runner/trace/trace_file_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdlib.h>

/* A sync point as a rank saw it. */
struct passed {
    const struct hd_trace_task *task;
    double begin_us, end_us;
};

static int by_sequence(const void *a, const void *b)
{
    const struct hd_trace_task *x = ((const struct passed *)a)->task,
                               *y = ((const struct passed *)b)->task;
    return x->at.sequence != y->at.sequence
               ? (x->at.sequence > y->at.sequence) - (x->at.sequence < y->at.sequence)
               : x->rank - y->rank;
}

static int64_t list_passed(const struct hd_trace_file *trace, struct passed *list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        const struct hd_trace_lane *lane = &trace->lanes[event->lane];
        const struct hd_trace_task *task =
            lane->collectives ? hd_trace_file_find_task(trace, lane->rank, event->task) : NULL;
        if (task && task->at.scope != HD_SYNC_HOST)
            list[n++] = (struct passed){task, event->begin_us, event->end_us};
    }
    qsort(list, (size_t)n, sizeof *list, by_sequence);
    return n;
}

static bool waits_for(const struct hd_trace_task *task, int rank)
{
    return task->at.scope == HD_SYNC_ALL_RANKS ||
           (task->exchange.peer == rank && task->exchange.in_bytes > 0);
}

/* Takes what the sync points say into limit[hosts][hosts]. Returns how many joined hosts. */
static int64_t limit(const struct hd_trace_file *trace, const struct passed *list, int64_t n,
                     double *limit)
{
    int64_t joined = 0;
    for (int64_t i = 0, next; i < n; i = next) {
        bool counted = false;
        for (next = i; next < n && list[next].task->at.sequence == list[i].task->at.sequence;)
            next++;
        for (int64_t a = i; a < next; a++)
            for (int64_t b = i; b < next; b++) {
                const int from = list[a].task->rank / trace->hosts.ranks,
                          to = list[b].task->rank / trace->hosts.ranks;
                double *most = &limit[from * trace->hosts.n + to];
                if (from == to || !waits_for(list[b].task, list[a].task->rank))
                    continue;
                *most = fmin(*most, list[b].end_us - list[a].begin_us);
                counted = true;
            }
        joined += counted;
    }
    return joined;
}

/* Adds what follows over other hosts (Floyd and Warshall). */
static void close_limits(double *limit, int n)
{
    for (int k = 0; k < n; k++)
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++)
                limit[a * n + b] = fmin(limit[a * n + b], limit[a * n + k] + limit[k * n + b]);
}

void hd_trace_shift(struct hd_trace_file *trace, int first, int end, double by_us)
{
    for (int64_t i = 0; i < trace->n_events; i++) {
        struct hd_trace_event *event = &trace->events[i];
        const int rank = trace->lanes[event->lane].rank;
        event->begin_us += rank >= first && rank < end ? by_us : 0;
        event->end_us += rank >= first && rank < end ? by_us : 0;
    }
    for (int64_t i = 0; i < trace->n_tasks; i++)
        if (trace->tasks[i].rank >= first && trace->tasks[i].rank < end)
            trace->tasks[i].at_us += by_us;
    for (int64_t i = 0; i < trace->n_iterations; i++)
        if (trace->iterations[i].rank >= first && trace->iterations[i].rank < end)
            trace->iterations[i].at_us += by_us;
}

/* Takes the middle of what the limits allow. A clock that runs faster than another leaves nothing
 * between them, in the end: then the error is by how much they contradict each other. */
static void align(struct hd_trace_file *trace, const double *limit, int64_t joined)
{
    const int n = trace->hosts.n;
    for (int host = 1; host < n; host++) {
        const double most = limit[host * n], least = -limit[host];
        if (!isfinite(most) || !isfinite(least)) {
            snprintf(trace->clock, sizeof trace->clock,
                     "each host's own: no sync point joins host %d to the first one", host);
            trace->clock_error_us = INFINITY;
            return;
        }
        hd_trace_shift(trace, host * trace->hosts.ranks, (host + 1) * trace->hosts.ranks,
                       (most + least) / 2);
        trace->clock_error_us = fmax(trace->clock_error_us, fabs(most - least) / 2);
    }
    snprintf(trace->clock, sizeof trace->clock,
             "rank 0's; clocks of other hosts aligned by %lld sync points, right to %.1f us",
             (long long)joined, trace->clock_error_us);
}

int hd_trace_file_align_clocks(struct hd_trace_file *trace)
{
    const int64_t hosts = trace->hosts.n;
    if (hosts <= 1) {
        snprintf(trace->clock, sizeof trace->clock, "rank 0's, which all ranks share");
        return HD_OK;
    }
    double *limits = hd_alloc(hosts * hosts, sizeof *limits);
    struct passed *list = hd_alloc(trace->n_events + 1, sizeof *list);
    if (limits && list) {
        for (int64_t i = 0; i < hosts * hosts; i++)
            limits[i] = i % (hosts + 1) == 0 ? 0 : INFINITY;
        const int64_t joined = limit(trace, list, list_passed(trace, list), limits);
        close_limits(limits, (int)hosts);
        align(trace, limits, joined);
    }
    const int status = limits && list ? HD_OK : HD_ERR_NOMEM;
    hd_free(limits);
    hd_free(list);
    return status;
}
