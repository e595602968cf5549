/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace as Perfetto's protobuf, a packet after the other. All times are of one clock,
 * MONOTONIC of the first host. */
#include "perfetto.pb-c.h"
#include "runner/trace/derived.h"
#include "runner/trace/write.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdlib.h>

enum { CLOCK_ID = 3 /* BUILTIN_CLOCK_MONOTONIC */, SEQUENCE = 1, STATE_CLEARED = 1 };
enum { PROCESS_SLOT = 0, LANE_SLOT = 1, COUNTER_SLOT = 1 << 20 }; /* of tracks of a rank */

struct writing {
    const struct hd_trace_file *trace;
    FILE *file;
    double first_us; /* that is time 0 */
    bool begun;
    bool failed; /* there is no memory */
};

static uint64_t get_track(int rank, int slot)
{
    return (uint64_t)(rank + 1) << 32 | (uint64_t)slot;
}

/* Several messages Trace behind one another are one. */
static void write_packet(struct writing *writing, Hd__Perfetto__TracePacket *packet)
{
    Hd__Perfetto__Trace trace = HD__PERFETTO__TRACE__INIT;
    packet->has_trusted_packet_sequence_id = true;
    packet->trusted_packet_sequence_id = SEQUENCE;
    packet->has_sequence_flags = !writing->begun;
    packet->sequence_flags = STATE_CLEARED;
    writing->begun = true;
    trace.n_packet = 1;
    trace.packet = &packet;
    uint8_t small[512], *bytes = small;
    const size_t n = hd__perfetto__trace__get_packed_size(&trace);
    if (n > sizeof small)
        bytes = hd_alloc((int64_t)n, 1);
    if (bytes)
        fwrite(bytes, 1, hd__perfetto__trace__pack(&trace, bytes), writing->file);
    else
        writing->failed = true;
    if (bytes != small)
        hd_free(bytes);
}

/* -- Clocks and tracks ------------------------------------------------------------------------- */

static void write_clock(struct writing *writing)
{
    Hd__Perfetto__Clock clock = HD__PERFETTO__CLOCK__INIT, *clocks = &clock;
    Hd__Perfetto__ClockSnapshot snapshot = HD__PERFETTO__CLOCK_SNAPSHOT__INIT;
    Hd__Perfetto__TracePacket packet = HD__PERFETTO__TRACE_PACKET__INIT;
    clock.has_clock_id = clock.has_timestamp = true;
    clock.clock_id = CLOCK_ID;
    snapshot.n_clocks = 1;
    snapshot.clocks = &clocks;
    snapshot.has_primary_trace_clock = true;
    snapshot.primary_trace_clock = CLOCK_ID;
    packet.clock_snapshot = &snapshot;
    write_packet(writing, &packet);
}

static void write_track(struct writing *writing, Hd__Perfetto__TrackDescriptor *track, int rank,
                        int slot)
{
    Hd__Perfetto__TracePacket packet = HD__PERFETTO__TRACE_PACKET__INIT;
    track->has_uuid = true;
    track->uuid = get_track(rank, slot);
    track->has_parent_uuid = slot != PROCESS_SLOT;
    track->parent_uuid = get_track(rank, PROCESS_SLOT);
    packet.track_descriptor = track;
    write_packet(writing, &packet);
}

/* A rank is a process, and tells how its clock was aligned. */
static void write_rank(struct writing *writing, int rank)
{
    char name[32];
    Hd__Perfetto__Process process = HD__PERFETTO__PROCESS__INIT;
    Hd__Perfetto__TrackDescriptor track = HD__PERFETTO__TRACK_DESCRIPTOR__INIT;
    snprintf(name, sizeof name, "rank %d", rank);
    process.has_pid = true;
    process.pid = 1 + rank; /* Perfetto takes 0 for the idle process */
    process.process_name = name;
    track.process = &process;
    track.description = (char *)writing->trace->clock;
    write_track(writing, &track, rank, PROCESS_SLOT);
    for (int counter = 0; counter < HD_TRACE_COUNTERS; counter++) {
        Hd__Perfetto__Counter unit = HD__PERFETTO__COUNTER__INIT;
        Hd__Perfetto__TrackDescriptor counted = HD__PERFETTO__TRACK_DESCRIPTOR__INIT;
        unit.has_unit = true;
        unit.unit = counter == HD_COUNTS_BYTES ? HD__PERFETTO__COUNTER__UNIT__SIZE_BYTES
                                               : HD__PERFETTO__COUNTER__UNIT__COUNT;
        counted.name = (char *)hd_trace_counter_get_name((enum hd_trace_counter)counter);
        counted.counter = &unit;
        write_track(writing, &counted, rank, COUNTER_SLOT + counter);
    }
}

static void write_lanes(struct writing *writing)
{
    int before = -1;
    for (int i = 0; i < writing->trace->n_lanes; i++) {
        const struct hd_trace_lane *lane = &writing->trace->lanes[i];
        Hd__Perfetto__Thread thread = HD__PERFETTO__THREAD__INIT;
        Hd__Perfetto__TrackDescriptor track = HD__PERFETTO__TRACK_DESCRIPTOR__INIT;
        if (lane->rank != before)
            write_rank(writing, lane->rank);
        before = lane->rank;
        thread.has_pid = thread.has_tid = true;
        thread.pid = 1 + lane->rank;
        thread.tid = 1 + lane->tid;
        thread.thread_name = (char *)lane->name;
        track.thread = &thread;
        write_track(writing, &track, lane->rank, LANE_SLOT + lane->tid);
    }
}

/* -- Events and arrows ------------------------------------------------------------------------- */

/* The ends of all arrows on one side, in order of their events. */
struct ends {
    struct end {
        const struct hd_trace_event *event;
        uint64_t number;
    } * list; /* [n] */
    uint64_t *numbers;
    int64_t n, capacity, next;
};

struct arrows {
    struct ends from, to;
    int status;
};

static int add_end(struct ends *ends, const struct hd_trace_event *event, int64_t number)
{
    HD_TRY(hd_grow((void **)&ends->list, &ends->capacity, ends->n + 1, sizeof *ends->list));
    ends->list[ends->n++] = (struct end){event, (uint64_t)number};
    return HD_OK;
}

static void add_arrow(void *arg, int64_t number, const struct hd_trace_event *from,
                      const struct hd_trace_event *to)
{
    struct arrows *arrows = arg;
    if (arrows->status == HD_OK)
        arrows->status = add_end(&arrows->from, from, number);
    if (arrows->status == HD_OK)
        arrows->status = add_end(&arrows->to, to, number);
}

static int by_event(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    return x->event != y->event ? (x->event > y->event) - (x->event < y->event)
                                : (x->number > y->number) - (x->number < y->number);
}

static int sort_ends(struct ends *ends)
{
    ends->numbers = hd_alloc(ends->n, sizeof *ends->numbers);
    if (!ends->numbers)
        return HD_ERR_NOMEM;
    if (ends->n > 0)
        qsort(ends->list, (size_t)ends->n, sizeof *ends->list, by_event);
    for (int64_t i = 0; i < ends->n; i++)
        ends->numbers[i] = ends->list[i].number;
    return HD_OK;
}

/* Takes those of an event; events come in order. */
static size_t take_ends(struct ends *ends, const struct hd_trace_event *event, uint64_t **numbers_p)
{
    const int64_t first = ends->next;
    *numbers_p = ends->numbers + first;
    while (ends->next < ends->n && ends->list[ends->next].event == event)
        ends->next++;
    return (size_t)(ends->next - first);
}

static void write_track_event(struct writing *writing, Hd__Perfetto__TrackEvent *event, int type,
                              int rank, int slot, double us)
{
    Hd__Perfetto__TracePacket packet = HD__PERFETTO__TRACE_PACKET__INIT;
    event->has_type = event->has_track_uuid = true;
    event->type = (Hd__Perfetto__TrackEvent__Type)type;
    event->track_uuid = get_track(rank, slot);
    packet.has_timestamp = packet.has_timestamp_clock_id = true;
    packet.timestamp = (uint64_t)llround((us - writing->first_us) * 1e3);
    packet.timestamp_clock_id = CLOCK_ID;
    packet.track_event = event;
    write_packet(writing, &packet);
}

static void write_event(struct writing *writing, const struct hd_trace_event *event,
                        struct arrows *arrows)
{
    enum { FIELDS = 5 };
    static const char *const names[FIELDS] = {"iteration", "shard", "part", "item", "stage"};
    const int values[FIELDS] = {event->iteration, event->shard, event->bucket, event->item,
                                event->stage};
    const struct hd_trace_lane *lane = &writing->trace->lanes[event->lane];
    char *category = lane->collectives ? "communication" : "task";
    Hd__Perfetto__DebugAnnotation fields[FIELDS], *list[FIELDS];
    Hd__Perfetto__TrackEvent begin = HD__PERFETTO__TRACK_EVENT__INIT,
                             end = HD__PERFETTO__TRACK_EVENT__INIT;
    for (int i = 0; i < FIELDS; i++) {
        hd__perfetto__debug_annotation__init(&fields[i]);
        fields[i].name = (char *)names[i];
        fields[i].has_int_value = true;
        fields[i].int_value = values[i];
        list[i] = &fields[i];
    }
    begin.name = (char *)writing->trace->sums[event->name].name;
    begin.n_categories = 1;
    begin.categories = &category;
    begin.n_debug_annotations = FIELDS;
    begin.debug_annotations = list;
    begin.n_flow_ids = take_ends(&arrows->from, event, &begin.flow_ids);
    begin.n_terminating_flow_ids = take_ends(&arrows->to, event, &begin.terminating_flow_ids);
    write_track_event(writing, &begin, HD__PERFETTO__TRACK_EVENT__TYPE__SLICE_BEGIN, lane->rank,
                      LANE_SLOT + lane->tid, event->begin_us);
    write_track_event(writing, &end, HD__PERFETTO__TRACK_EVENT__TYPE__SLICE_END, lane->rank,
                      LANE_SLOT + lane->tid, event->end_us);
}

static int write_events(struct writing *writing)
{
    struct arrows arrows = {.status = HD_OK};
    int status = hd_trace_each_flow(writing->trace, add_arrow, &arrows);
    if (status == HD_OK)
        status = arrows.status;
    if (status == HD_OK)
        status = sort_ends(&arrows.from);
    if (status == HD_OK)
        status = sort_ends(&arrows.to);
    for (int64_t i = 0; status == HD_OK && i < writing->trace->n_events; i++)
        write_event(writing, &writing->trace->events[i], &arrows);
    hd_free(arrows.from.list);
    hd_free(arrows.from.numbers);
    hd_free(arrows.to.list);
    hd_free(arrows.to.numbers);
    return status;
}

static int write_counts(struct writing *writing)
{
    struct hd_trace_count *counts;
    int64_t n;
    HD_TRY(hd_trace_count(writing->trace, &counts, &n));
    for (int64_t i = 0; i < n; i++) {
        Hd__Perfetto__TrackEvent event = HD__PERFETTO__TRACK_EVENT__INIT;
        event.has_counter_value = true;
        event.counter_value = counts[i].value;
        write_track_event(writing, &event, HD__PERFETTO__TRACK_EVENT__TYPE__COUNTER, counts[i].rank,
                          COUNTER_SLOT + (int)counts[i].counter, counts[i].us);
    }
    hd_free(counts);
    return HD_OK;
}

/* Counters change when tasks are submitted, too. */
static double find_first(const struct hd_trace_file *trace)
{
    double first_us = trace->n_events > 0 ? trace->events[0].begin_us : 0;
    for (int64_t i = 0; i < trace->n_tasks; i++)
        first_us = fmin(first_us, trace->tasks[i].at_us);
    return fmin(first_us, 0);
}

int hd_trace_file_write_perfetto(const struct hd_trace_file *trace, FILE *file)
{
    struct writing writing = {.trace = trace, .file = file, .first_us = find_first(trace)};
    write_clock(&writing);
    write_lanes(&writing);
    HD_TRY(write_events(&writing));
    HD_TRY(write_counts(&writing));
    return writing.failed ? HD_ERR_NOMEM : HD_OK;
}
