/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/trace/derived.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdlib.h>

static const struct hd_trace_task *find_before(const struct hd_trace_file *trace,
                                               const struct hd_trace_task *task, int64_t k)
{
    return hd_trace_file_find_task(trace, task->rank, trace->before[k]);
}

/* Marks with `mark` what tasks waited for that this one waited for. */
static void mark_implied(const struct hd_trace_file *trace, const struct hd_trace_task *task,
                         int64_t *marks, int64_t mark)
{
    for (int64_t k = task->before; k < task[1].before; k++) {
        const struct hd_trace_task *from = find_before(trace, task, k);
        for (int64_t j = from ? from->before : 0; from && j < from[1].before; j++) {
            const struct hd_trace_task *earlier = find_before(trace, from, j);
            if (earlier)
                marks[earlier - trace->tasks] = mark;
        }
    }
}

int hd_trace_each_flow(const struct hd_trace_file *trace,
                       void (*each)(void *arg, int64_t number, const struct hd_trace_event *from,
                                    const struct hd_trace_event *to),
                       void *arg)
{
    int64_t number = 0, *marks = hd_alloc(trace->n_tasks, sizeof *marks);
    if (!marks)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < trace->n_tasks; i++) {
        const struct hd_trace_task *task = &trace->tasks[i];
        if (task->event < 0)
            continue;
        mark_implied(trace, task, marks, i + 1);
        for (int64_t k = task->before; k < task[1].before; k++) {
            const struct hd_trace_task *from = find_before(trace, task, k);
            if (from && from->last >= 0 && from->last != task->event &&
                marks[from - trace->tasks] != i + 1)
                each(arg, ++number, &trace->events[from->last], &trace->events[task->event]);
        }
    }
    hd_free(marks);
    return HD_OK;
}

const char *hd_trace_counter_get_name(enum hd_trace_counter counter)
{
    static const char *const names[] = {"ready tasks", "busy workers", "bytes in flight",
                                        "exposed communication"};
    return names[counter];
}

/* -- Counters ---------------------------------------------------------------------------------- */

enum { OPEN = HD_COUNTS_EXPOSED }; /* its steps are those of open sync points */

struct steps {
    struct hd_trace_count *list; /* by which amount a counter changes */
    int64_t n;
};

static void add_step(struct steps *steps, int rank, int counter, double begin, double end,
                     int64_t amount)
{
    if (end <= begin)
        return;
    steps->list[steps->n++] = (struct hd_trace_count){begin, rank, counter, amount};
    steps->list[steps->n++] = (struct hd_trace_count){end, rank, counter, -amount};
}

double hd_trace_find_ready(const struct hd_trace_file *trace, const struct hd_trace_task *task)
{
    double ready_us = task->at_us;
    for (int64_t k = task->before; k < task[1].before; k++) {
        const struct hd_trace_task *from = find_before(trace, task, k);
        if (from && from->last >= 0)
            ready_us = fmax(ready_us, from->end_us);
    }
    return ready_us;
}

static void list_steps(const struct hd_trace_file *trace, struct steps *steps)
{
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        const struct hd_trace_lane *lane = &trace->lanes[event->lane];
        add_step(steps, lane->rank, lane->collectives ? OPEN : HD_COUNTS_BUSY, event->begin_us,
                 event->end_us, 1);
    }
    for (int64_t i = 0; i < trace->n_tasks; i++) {
        const struct hd_trace_task *task = &trace->tasks[i];
        const int64_t bytes = task->exchange.out_bytes + task->exchange.in_bytes;
        if (task->event < 0)
            continue;
        if (task->at.kind == HD_SUBMITTED_TASK)
            add_step(steps, task->rank, HD_COUNTS_READY, hd_trace_find_ready(trace, task),
                     task->begin_us, 1);
        else if (bytes > 0)
            add_step(steps, task->rank, HD_COUNTS_BYTES, task->begin_us, task->end_us, bytes);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct hd_trace_count *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : (x->us > y->us) - (x->us < y->us);
}

/* Adds up sorted steps: values[2 * n] gets one for each moment at which a counter of a rank
 * changes. A step changes two at most. */
static int64_t add_steps(const struct steps *steps, struct hd_trace_count *values)
{
    const struct hd_trace_count *list = steps->list;
    int64_t sums[HD_TRACE_COUNTERS] = {0}, told[HD_TRACE_COUNTERS] = {0}, kept = 0;
    for (int64_t i = 0; i < steps->n; i++) {
        const struct hd_trace_count now = list[i];
        sums[now.counter] += now.value;
        if (i + 1 < steps->n && list[i + 1].rank == now.rank && list[i + 1].us == now.us)
            continue;
        for (int c = 0; c < HD_TRACE_COUNTERS; c++) {
            const int64_t value =
                c == HD_COUNTS_EXPOSED ? sums[OPEN] > 0 && sums[HD_COUNTS_BUSY] == 0 : sums[c];
            if (value != told[c])
                values[kept++] = (struct hd_trace_count){now.us, now.rank, c, told[c] = value};
        }
    }
    return kept;
}

int hd_trace_count(const struct hd_trace_file *trace, struct hd_trace_count **counts_p,
                   int64_t *n_p)
{
    const int64_t most = 2 * (trace->n_events + trace->n_tasks);
    struct steps steps = {hd_alloc(most, sizeof *steps.list), 0};
    struct hd_trace_count *values = hd_alloc(2 * most, sizeof *values);
    if (steps.list && values) {
        list_steps(trace, &steps);
        qsort(steps.list, (size_t)steps.n, sizeof *steps.list, by_time);
        *n_p = add_steps(&steps, values);
    }
    const int status = steps.list && values ? HD_OK : HD_ERR_NOMEM;
    hd_free(steps.list);
    if (status == HD_OK)
        *counts_p = values;
    else
        hd_free(values);
    return status;
}
