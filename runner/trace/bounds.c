/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/trace/bounds.h"

#include "runner/trace/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Work -------------------------------------------------------------------------------------- */

static int find_work(const struct hd_trace_file *trace, const struct hd_replay *replay,
                     struct hd_bounds *bounds)
{
    double *busy_us = hd_alloc(trace->n_lanes, sizeof *busy_us);
    if (!busy_us)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        const struct hd_trace_lane *lane = &trace->lanes[event->lane];
        if (lane->collectives)
            continue;
        const double inside =
            fmin(event->end_us, replay->end_us) - fmax(event->begin_us, replay->begin_us);
        double *busy = &busy_us[event->lane];
        *busy += inside > 0 ? inside : 0;
        if (*busy * 1e-6 <= bounds->work_s)
            continue;
        bounds->work_s = *busy * 1e-6;
        bounds->work_rank = lane->rank;
        snprintf(bounds->work_lane, sizeof bounds->work_lane, "%s", lane->name);
    }
    hd_free(busy_us);
    return HD_OK;
}

/* -- The cable --------------------------------------------------------------------------------- */

/* The messages of a sync point of a host, under way from when the last rank has arrived. */
struct crossing {
    int64_t sequence;
    double arrived_us, end_us, bytes;
};

static int by_sequence(const void *a, const void *b)
{
    const struct crossing *x = a, *y = b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static int by_arrival(const void *a, const void *b)
{
    const struct crossing *x = a, *y = b;
    return (x->arrived_us > y->arrived_us) - (x->arrived_us < y->arrived_us);
}

static int64_t list_crossings(const struct hd_replay *replay, int host, struct crossing *list)
{
    const struct hd_trace_file *trace = replay->trace;
    int64_t n = 0, kept = 0;
    for (int64_t i = 0; i < trace->n_tasks; i++) {
        const struct hd_trace_task *task = &trace->tasks[i];
        const bool own = task->rank / trace->hosts.ranks == host;
        if (task->at.kind == HD_SUBMITTED_SYNC && task->at.scope != HD_SYNC_HOST &&
            task->event >= 0 && task->begin_us >= replay->begin_us &&
            task->begin_us < replay->end_us)
            list[n++] = (struct crossing){task->at.sequence, task->begin_us, own ? task->end_us : 0,
                                          own ? (double)task->exchange.out_bytes : 0};
    }
    qsort(list, (size_t)n, sizeof *list, by_sequence);
    for (int64_t i = 0; i < n; i++) {
        struct crossing *last = kept > 0 ? &list[kept - 1] : NULL;
        if (!last || last->sequence != list[i].sequence) {
            list[kept++] = list[i];
            continue;
        }
        last->arrived_us = fmax(last->arrived_us, list[i].arrived_us);
        last->end_us = fmax(last->end_us, list[i].end_us);
        last->bytes += list[i].bytes;
    }
    qsort(list, (size_t)kept, sizeof *list, by_arrival);
    return kept;
}

/* Measures the rate of a host's link, where that is not known: its bytes in the time in which some
 * were under way. The shortest exchange tells the latency. */
static void measure_link(const struct crossing *list, int64_t n, double bytes,
                         struct hd_replay *replay)
{
    double until_us = -INFINITY, open_us = 0, shortest_us = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double begin_us = fmax(list[i].arrived_us, until_us);
        open_us += fmax(list[i].end_us - begin_us, 0);
        until_us = fmax(until_us, list[i].end_us);
    }
    if (replay->bytes_per_s == 0 && open_us > 0)
        replay->bytes_per_s = bytes / (open_us * 1e-6);
    for (int64_t i = 0; i < n && replay->bytes_per_s > 0; i++)
        shortest_us = fmin(shortest_us, list[i].end_us - list[i].arrived_us -
                                            list[i].bytes / replay->bytes_per_s * 1e6);
    replay->latency_s = isfinite(shortest_us) ? fmax(shortest_us, 0) * 1e-6 : 0;
}

static int find_cable(struct hd_replay *replay, double bytes_per_s, struct hd_bounds *bounds)
{
    const struct hd_trace_file *trace = replay->trace;
    double most = 0;
    if (trace->hosts.n <= 1)
        return HD_OK;
    struct crossing *list = hd_alloc(trace->n_tasks, sizeof *list);
    if (!list)
        return HD_ERR_NOMEM;
    for (int host = 0; host < trace->hosts.n; host++) {
        const int64_t n = list_crossings(replay, host, list);
        double bytes = 0;
        for (int64_t i = 0; i < n; i++)
            bytes += list[i].bytes;
        if (bytes <= most)
            continue;
        most = bytes;
        replay->bytes_per_s = bytes_per_s;
        measure_link(list, n, bytes, replay);
    }
    hd_free(list);
    bounds->bytes_per_s = replay->bytes_per_s;
    bounds->measured = bytes_per_s == 0;
    bounds->cable_s = replay->bytes_per_s > 0 ? most / replay->bytes_per_s : 0;
    return HD_OK;
}

/* -- Replays ----------------------------------------------------------------------------------- */

static int by_gain(const void *a, const void *b)
{
    const struct hd_bounds_step *x = a, *y = b;
    return (x->faster < y->faster) - (x->faster > y->faster);
}

/* Keeps the steps that promise most. */
static int try_change(struct hd_replay *replay, const struct hd_replay_change *change,
                      const char *name, struct hd_bounds *bounds)
{
    double seconds;
    HD_TRY(hd_replay_run(replay, change, &seconds));
    struct hd_bounds_step step = {.faster = seconds > 0 ? bounds->replayed_s / seconds - 1 : 0};
    snprintf(step.name, sizeof step.name, "%s", name);
    const bool full = bounds->n_steps == HD_BOUNDS_STEPS;
    if (full && step.faster <= bounds->steps[HD_BOUNDS_STEPS - 1].faster)
        return HD_OK;
    bounds->steps[full ? HD_BOUNDS_STEPS - 1 : bounds->n_steps++] = step;
    qsort(bounds->steps, (size_t)bounds->n_steps, sizeof *bounds->steps, by_gain);
    return HD_OK;
}

static int try_all(struct hd_replay *replay, struct hd_bounds *bounds)
{
    const struct hd_trace_file *trace = replay->trace;
    for (int i = 0; i < trace->n_names; i++)
        if (!trace->sums[i].wait && trace->sums[i].count > 0)
            HD_TRY(try_change(replay, &(struct hd_replay_change){.free = i}, trace->sums[i].name,
                              bounds));
    HD_TRY(try_change(replay, &(struct hd_replay_change){.free = HD_NO_NAME, .no_overheads = true},
                      "submitting and starting tasks", bounds));
    return trace->hosts.n > 1
               ? try_change(replay,
                            &(struct hd_replay_change){.free = HD_NO_NAME, .no_network = true},
                            "messages between hosts", bounds)
               : HD_OK;
}

static int replay_all(struct hd_replay *replay, struct hd_bounds *bounds)
{
    const struct hd_replay_change as_it_was = {.free = HD_NO_NAME}, path = {.free = HD_NO_NAME,
                                                                            .no_overheads = true,
                                                                            .many_workers = true};
    HD_TRY(hd_replay_run(replay, &as_it_was, &bounds->replayed_s));
    HD_TRY(hd_replay_run(replay, &path, &bounds->path_s));
    return try_all(replay, bounds);
}

int hd_bounds_find(const struct hd_trace_file *trace, double bytes_per_s,
                   struct hd_bounds *bounds_p)
{
    struct hd_replay replay;
    *bounds_p = (struct hd_bounds){0};
    HD_TRY(hd_replay_create(trace, &replay));
    int status = HD_OK;
    if (replay.iterations > 0) {
        bounds_p->iterations = replay.iterations;
        bounds_p->unit = replay.updates > 0 ? "updates" : "iterations";
        bounds_p->units = (double)(replay.updates > 0 ? replay.updates : replay.iterations);
        bounds_p->seconds = (replay.end_us - replay.begin_us) * 1e-6;
        status = find_work(trace, &replay, bounds_p);
        if (status == HD_OK)
            status = find_cable(&replay, bytes_per_s, bounds_p);
        if (status == HD_OK)
            status = replay_all(&replay, bounds_p);
    }
    hd_replay_release(&replay);
    return status;
}

/* -- For people -------------------------------------------------------------------------------- */

static void print_bound(const struct hd_bounds *bounds, const char *name, double seconds,
                        double longest, FILE *file)
{
    if (seconds > 0)
        fprintf(file, "  %-30s %10.1f%s", name, bounds->units / seconds,
                seconds == longest ? "  binds" : "       ");
}

static void print_steps(const struct hd_bounds *bounds, FILE *file)
{
    const double least = 0.005;
    bool begun = false;
    for (int i = 0; i < bounds->n_steps && bounds->steps[i].faster >= least; i++) {
        fprintf(file, begun ? ", %s %.0f %%" : "if %s were free: %.0f %% faster",
                bounds->steps[i].name, 100 * bounds->steps[i].faster);
        begun = true;
    }
    fputs(begun ? "\n" : "no step would make it faster if it were free\n", file);
}

void hd_bounds_print(const struct hd_bounds *bounds, FILE *file)
{
    if (bounds->iterations == 0) {
        fprintf(file, "no bounds: the trace has fewer than %d whole iterations with updates\n",
                HD_REPLAY_ITERATIONS_MIN);
        return;
    }
    const double longest = fmax(bounds->work_s, fmax(bounds->path_s, bounds->cable_s));
    fprintf(file, "%.1f %s/s in the last %" PRId64 " iterations of the trace; bounds of that:\n",
            bounds->units / bounds->seconds, bounds->unit, bounds->iterations);
    print_bound(bounds, "work of the busiest worker", bounds->work_s, longest, file);
    fprintf(file, "  %s of rank %d\n", bounds->work_lane, bounds->work_rank);
    print_bound(bounds, "critical path", bounds->path_s, longest, file);
    fputs("  any number of workers, which submit and start tasks in no time\n", file);
    print_bound(bounds, "bytes over the cable", bounds->cable_s, longest, file);
    if (bounds->cable_s > 0)
        fprintf(file, "  at %.3g Mbit/s%s\n", bounds->bytes_per_s * 8e-6,
                bounds->measured ? ", measured while bytes were under way (--link tells more)"
                                 : "");
    fprintf(file, "  %-30s %10.1f         the model that the next line is from\n",
            "replay of the tasks", bounds->units / bounds->replayed_s);
    print_steps(bounds, file);
}

void hd_bounds_describe(const struct hd_bounds *bounds, char *text, size_t bytes)
{
    const struct hd_bounds_step *first = &bounds->steps[0];
    const double n = bounds->units;
    char cable[48] = "", step[HD_TRACE_NAME_BYTES + 48] = "";
    if (bounds->cable_s > 0)
        snprintf(cable, sizeof cable, ", bytes over the cable %.1f", n / bounds->cable_s);
    if (bounds->n_steps > 0 && first->faster > 0)
        snprintf(step, sizeof step, "; if %s were free: %.0f %% faster", first->name,
                 100 * first->faster);
    snprintf(text, bytes,
             "the last %" PRId64 " iterations: %.1f %s/s; bounds: work of the busiest worker %.1f, "
             "critical path %.1f%s%s",
             bounds->iterations, n / bounds->seconds, bounds->unit, n / bounds->work_s,
             n / bounds->path_s, cable, step);
}
