/* SPDX-License-Identifier: Apache-2.0 */
/* Totals of a trace from times that are made up: sums, exposed waiting; and
 * what its file holds. */
#include "runtime/base/status.h"
#include "runtime/engine/trace.h"
#include "tests/harness/check.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char verb_a[] = "a", verb_b[] = "b";

static struct hd_trace *make(int workers, int64_t capacity)
{
    struct hd_trace *trace;
    const struct hd_trace_options options = {
        .workers = workers, .capacity = capacity, .channels = 2};
    ck_assert_int_eq(hd_trace_create(&options, &trace), HD_OK);
    return trace;
}

static void end(struct hd_trace *trace, int lane, const char *verb, int64_t begin, int64_t at)
{
    const struct hd_event event = {
        .name = verb, .begin_ns = begin, .end_ns = at, .iteration = 7, .item = 2, .stage = 3};
    hd_trace_end(trace, lane, verb, &event);
}

static void close_on(struct hd_trace *trace, int channel, int64_t begin, int64_t at)
{
    const struct hd_event event = {.name = "mean(grad.1)", .begin_ns = begin, .end_ns = at};
    hd_trace_close(trace, channel, &event);
}

static void close_wait(struct hd_trace *trace, int64_t begin, int64_t at)
{
    close_on(trace, 0, begin, at);
}

static struct hd_timing find(struct hd_trace *trace, const char *verb)
{
    for (const struct hd_timing *timing = hd_trace_get_timings(trace); timing->verb; timing++)
        if (timing->verb == verb)
            return *timing;
    return (struct hd_timing){0};
}

/* worker 0   a 100-200, b 250-260, a 500-540
 * worker 1   a 150-300
 * waiting    180-400 (idle from 300 on), 450-520 (idle until 500) */
static void play(struct hd_trace *trace)
{
    hd_trace_begin(trace, 100);
    hd_trace_begin(trace, 150);
    hd_trace_open(trace, 180);
    end(trace, 0, verb_a, 100, 200);
    hd_trace_begin(trace, 250);
    end(trace, 0, verb_b, 250, 260);
    end(trace, 1, verb_a, 150, 300);
    close_wait(trace, 180, 400);
    hd_trace_open(trace, 450);
    hd_trace_begin(trace, 500);
    close_wait(trace, 450, 520);
    end(trace, 0, verb_a, 500, 540);
}

TEST(totals_are_of_all_workers)
{
    struct hd_trace *trace = make(2, 0);
    play(trace);
    struct hd_timing a = find(trace, verb_a), b = find(trace, verb_b);
    ck_assert_int_eq(a.count, 3);
    ck_assert_int_eq(a.busy_ns, 290);
    ck_assert_int_eq(b.count, 1);
    ck_assert_int_eq(b.busy_ns, 10);
    ck_assert_int_eq(hd_trace_get_totals(trace).busy_ns, 300);
    ck_assert_int_eq(hd_trace_get_totals(trace).tasks, 4);
    ck_assert_int_eq(hd_trace_get_totals(trace).first_ns, 100);
    hd_trace_destroy(trace);
}

/* Waits 100-300 and 200-400, work 150-250: exposed are 100-150 and 250-400. */
TEST(time_in_which_several_wait_is_exposed_once)
{
    struct hd_trace *trace = make(1, 0);
    hd_trace_open(trace, 100);
    hd_trace_begin(trace, 150);
    hd_trace_open(trace, 200);
    end(trace, 0, verb_a, 150, 250);
    close_on(trace, 0, 100, 300);
    ck_assert_int_eq(hd_trace_get_totals(trace).exposed_ns, 50 + 50);
    close_on(trace, 1, 200, 400);
    ck_assert_int_eq(hd_trace_get_totals(trace).waited_ns, 200 + 200);
    ck_assert_int_eq(hd_trace_get_totals(trace).exposed_ns, 50 + 150);
    hd_trace_destroy(trace);
}

TEST(waiting_is_exposed_while_nobody_works)
{
    struct hd_trace *trace = make(2, 0);
    play(trace);
    ck_assert_int_eq(hd_trace_get_totals(trace).waited_ns, 220 + 70);
    ck_assert_int_eq(hd_trace_get_totals(trace).exposed_ns, 100 + 50);
    hd_trace_destroy(trace);
}

/* The file holds the newest events of every lane, with the item and stage of subtasks. */
TEST(the_file_holds_the_newest_events)
{
    struct hd_trace *trace = make(2, 2);
    FILE *written = tmpfile();
    json_error_t error;
    play(trace);
    hd_trace_write(trace, written, 1, 100);
    fputs("}", written);
    rewind(written);
    json_t *file = json_loadf(written, 0, &error);
    ck_assert_msg(file != NULL, "%s", error.text);
    json_t *events = json_object_get(file, "traceEvents"), *event;
    size_t i;
    int bodies = 0, waits = 0;
    json_array_foreach(events, i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        json_t *args = json_object_get(event, "args");
        if (strcmp(name, "mean(grad.1)") == 0)
            waits++;
        if (strcmp(name, "a") != 0)
            continue;
        bodies++;
        ck_assert_int_eq(json_integer_value(json_object_get(args, "item")), 2);
        ck_assert_int_eq(json_integer_value(json_object_get(args, "stage")), 3);
        ck_assert_int_eq(json_integer_value(json_object_get(event, "pid")), 1);
    }
    ck_assert_int_eq(bodies, 2); /* of worker 0 the last two, b and a; of worker 1 its only one */
    ck_assert_int_eq(waits, 2);
    json_decref(file);
    fclose(written);
    hd_trace_destroy(trace);
}
