/* SPDX-License-Identifier: Apache-2.0 */
/* Traces read back: what hd_trace_write wrote, what events add up to, and files that are damaged.
 */
#include "runner/history/history.h"
#include "runner/trace/derived.h"
#include "runner/trace/write.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/engine/trace.h"
#include "runtime/io/base/files.h"
#include "tests/harness/check.h"
#include "tests/runner/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANE(tid, name)                                                                            \
    ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":" #tid                            \
    ",\"args\":{\"name\":\"" name "\"}}"
#define EVENT_OF(iteration, name, tid, begin, length)                                              \
    ",\n{\"name\":\"" name "\",\"ph\":\"X\",\"pid\":0,\"tid\":" #tid ",\"ts\":" #begin             \
    ",\"dur\":" #length ",\"args\":{\"iteration\":" #iteration ",\"shard\":1,\"part\":2,"          \
    "\"item\":0,\"stage\":0}}"
#define EVENT(name, tid, begin, length) EVENT_OF(3, name, tid, begin, length)
#define BEGIN                                                                                      \
    "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":"              \
    "{\"name\":\"rank 0\"}}"
#define END "\n]}\n"

/* Two workers and the collectives: bodies in [0, 15] and [20, 30], waits in [12, 25]. */
static const char two_workers[] = BEGIN LANE(0, "worker 0") EVENT("a", 0, 0.000, 10.000)
    EVENT("b", 0, 20.000, 10.000) LANE(1, "worker 1") EVENT("a", 1, 5.000, 10.000)
        LANE(2, "collectives") EVENT("mean(grad)", 2, 12.000, 13.000) END;

static struct hd_trace_file *trace;

static void teardown(void)
{
    hd_trace_file_release(trace);
    trace = NULL;
    scratch_teardown();
}

static const struct hd_trace_sum *find_sum(const char *name)
{
    for (int i = 0; i < trace->n_names; i++)
        if (strcmp(trace->sums[i].name, name) == 0)
            return &trace->sums[i];
    ck_abort_msg("no events of %s", name);
    return NULL;
}

FIXTURE(scratch_setup, teardown)

TEST(lanes_and_events_come_in_order_of_time)
{
    static const char *const names[] = {"a", "a", "mean(grad)", "b"};
    static const int lanes[] = {0, 1, 2, 0};
    ck_assert_int_eq(hd_trace_file_read(scratch_write("trace.json", two_workers), &trace), HD_OK);
    ck_assert_int_eq(trace->n_lanes, 3);
    ck_assert_int_eq(trace->workers, 2);
    ck_assert_str_eq(trace->lanes[1].name, "worker 1");
    ck_assert(!trace->lanes[1].collectives && trace->lanes[2].collectives);
    ck_assert_int_eq(trace->n_events, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(trace->sums[trace->events[i].name].name, names[i]);
        ck_assert_int_eq(trace->events[i].lane, lanes[i]);
    }
    ck_assert_int_eq(trace->events[0].iteration, 3);
    ck_assert_int_eq(trace->events[0].shard, 1);
    ck_assert_double_eq(trace->events[3].end_us, 30);
    ck_assert(!trace->cut);
}

TEST(events_add_up_to_unions)
{
    ck_assert_int_eq(hd_trace_file_read(scratch_write("trace.json", two_workers), &trace), HD_OK);
    ck_assert_int_eq(find_sum("a")->count, 2);
    ck_assert_double_eq(find_sum("a")->busy_us, 20);
    ck_assert_double_eq(find_sum("a")->any_us, 15);
    ck_assert(!find_sum("a")->wait && find_sum("mean(grad)")->wait);
    ck_assert_double_eq(find_sum("mean(grad)")->any_us, 13);
    ck_assert_double_eq(trace->begin_us, 0);
    ck_assert_double_eq(trace->end_us, 30);
    ck_assert_double_eq(trace->worked_us, 25);
    ck_assert_double_eq(trace->waited_us, 13);
    ck_assert_double_eq(trace->exposed_us, 5);
}

TEST(a_written_trace_reads_back)
{
    const struct hd_trace_options options = {.workers = 1, .capacity = 8, .channels = 1};
    const struct hd_event body = {.name = "adam", .begin_ns = 1500, .end_ns = 4500, .iteration = 7};
    const struct hd_event wait = {.name = "mean(grad)", .begin_ns = 5000, .end_ns = 6000};
    struct hd_trace *written;
    ck_assert_int_eq(hd_trace_create(&options, &written), HD_OK);
    hd_trace_begin(written, body.begin_ns);
    hd_trace_end(written, 0, "adam", &body);
    hd_trace_open(written, wait.begin_ns);
    hd_trace_close(written, 0, &wait);
    FILE *file = fopen(scratch_path("trace.json"), "w");
    hd_trace_write(written, file, 0, 1000);
    fputs("}\n", file);
    fclose(file);
    hd_trace_destroy(written);
    ck_assert_int_eq(hd_trace_file_read(scratch_path("trace.json"), &trace), HD_OK);
    ck_assert_int_eq(trace->n_events, 2);
    ck_assert_double_eq_tol(trace->events[0].begin_us, 0.5, 1e-9);
    ck_assert_double_eq_tol(trace->events[0].end_us, 3.5, 1e-9);
    ck_assert_int_eq(trace->events[0].iteration, 7);
    ck_assert_double_eq_tol(trace->waited_us, 1, 1e-9);
    ck_assert_double_eq_tol(trace->exposed_us, 1, 1e-9);
}

/* Worker 1 has as many events as a ring keeps: earlier ones of its may be lost, so worker 0's event
 * from before them is left out. */
TEST(a_full_ring_cuts_the_start)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    fputs(BEGIN LANE(0, "worker 0") EVENT("early", 0, 1.000, 2.000), memory);
    fputs(LANE(1, "worker 1"), memory);
    for (int i = 0; i < HD_TRACE_RING; i++)
        fprintf(memory,
                ",\n{\"name\":\"late\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":%d,\"dur\":1,"
                "\"args\":{\"iteration\":0,\"shard\":-1,\"part\":0}}",
                100 + i);
    fputs(END, memory);
    fclose(memory);
    ck_assert_int_eq(hd_trace_file_read(scratch_write("trace.json", text), &trace), HD_OK);
    free(text);
    ck_assert(trace->cut);
    ck_assert_int_eq(trace->n_events, HD_TRACE_RING);
    ck_assert_int_eq(find_sum("early")->count, 0);
    ck_assert_double_eq(trace->begin_us, 100);
}

/* -- Dependences ------------------------------------------------------------------------------- */

#define RUNS(name, tid, begin, length, task)                                                       \
    ",\n{\"name\":\"" name "\",\"ph\":\"X\",\"pid\":0,\"tid\":" #tid ",\"ts\":" #begin             \
    ",\"dur\":" #length ",\"args\":{\"iteration\":0,\"shard\":0,\"part\":0,\"item\":0,"            \
    "\"stage\":0,\"task\":" #task ",\"fused\":0}}"
#define TASK(number, name, kind, bytes, before)                                                    \
    "\n[0," #number ",\"" name "\"," #kind ",0,0,0,0,0,0,0,0,0,0,0,0," #bytes ",0,1.000,[" before  \
    "]]"

/* a 2-10, b 12-20 after a, c 25-30 after both, an exchange 20-40 after b; two workers. */
static const char dependent[] = BEGIN LANE(0, "worker 0") RUNS("a", 0, 2, 8, 7)
    RUNS("b", 0, 12, 8, 8) LANE(1, "worker 1") RUNS("c", 1, 25, 5, 9) LANE(2, "collectives")
        RUNS("mean", 2, 20, 20, 10) "\n],\n\"iterations\":[\n[0,0,7,0,1.000]\n],\n\"tasks\":[" TASK(
            7, "a", 0, 0, "") "," TASK(8, "b", 0, 0, "7") "," TASK(9, "c", 0, 0,
                                                                   "7,8") "," TASK(10, "mean", 1,
                                                                                   64, "8") END;

static void note_flow(void *arg, int64_t number, const struct hd_trace_event *from,
                      const struct hd_trace_event *to)
{
    char *text = arg;
    const size_t used = strlen(text);
    snprintf(text + used, 64 - used, "%d%s-%s ", (int)number, trace->sums[from->name].name,
             trace->sums[to->name].name);
}

static void check_dependences(void)
{
    char flows[64] = "";
    struct hd_trace_count *counts;
    int64_t n;
    ck_assert_int_eq(hd_trace_each_flow(trace, note_flow, flows), HD_OK);
    ck_assert_str_eq(flows, "1a-b 2b-c 3b-mean "); /* a-c follows */
    ck_assert_int_eq(hd_trace_count(trace, &counts, &n), HD_OK);
    static const struct hd_trace_count expected[] = {
        {1, 0, HD_COUNTS_READY, 1},    {2, 0, HD_COUNTS_READY, 0},
        {2, 0, HD_COUNTS_BUSY, 1},     {10, 0, HD_COUNTS_READY, 1},
        {10, 0, HD_COUNTS_BUSY, 0},    {12, 0, HD_COUNTS_READY, 0},
        {12, 0, HD_COUNTS_BUSY, 1},    {20, 0, HD_COUNTS_READY, 1},
        {20, 0, HD_COUNTS_BUSY, 0},    {20, 0, HD_COUNTS_BYTES, 64},
        {20, 0, HD_COUNTS_EXPOSED, 1}, {25, 0, HD_COUNTS_READY, 0},
        {25, 0, HD_COUNTS_BUSY, 1},    {25, 0, HD_COUNTS_EXPOSED, 0},
        {30, 0, HD_COUNTS_BUSY, 0},    {30, 0, HD_COUNTS_EXPOSED, 1},
        {40, 0, HD_COUNTS_BYTES, 0},   {40, 0, HD_COUNTS_EXPOSED, 0}};
    ck_assert_int_eq(n, COUNT(expected));
    for (int i = 0; i < n; i++)
        ck_assert_msg(counts[i].us == expected[i].us && counts[i].counter == expected[i].counter &&
                          counts[i].value == expected[i].value,
                      "count %d: %s is %d at %g", i, hd_trace_counter_get_name(counts[i].counter),
                      (int)counts[i].value, counts[i].us);
    hd_free(counts);
}

/* Written and read again, a trace says the same; arrows and counters are written too. */
TEST(dependences_give_arrows_and_counters)
{
    char *text;
    int64_t bytes;
    ck_assert_int_eq(hd_trace_file_read(scratch_write("trace.json", dependent), &trace), HD_OK);
    check_dependences();
    FILE *file = fopen(scratch_path("again.json"), "w");
    ck_assert_int_eq(hd_trace_file_write_json(trace, file), HD_OK);
    fclose(file);
    hd_trace_file_release(trace);
    ck_assert_int_eq(hd_trace_file_read(scratch_path("again.json"), &trace), HD_OK);
    check_dependences();
    ck_assert_int_eq(hd_file_read(scratch_path("again.json"), HD_INPUT_RUN, &text, &bytes), HD_OK);
    ck_assert_ptr_nonnull(
        strstr(text, "{\"ph\":\"s\",\"id\":2,\"pid\":0,\"tid\":0,\"ts\":12.000,"));
    ck_assert_ptr_nonnull(
        strstr(text, "\"ts\":20.000,\"name\":\"bytes in flight\",\"args\":{\"value\":64}}"));
    hd_free(text);
}

TEST(a_trace_without_events_is_empty)
{
    ck_assert_int_eq(
        hd_trace_file_read(scratch_write("trace.json", BEGIN LANE(0, "worker 0") END), &trace),
        HD_OK);
    ck_assert_int_eq(trace->n_events, 0);
    ck_assert_double_eq(trace->worked_us, 0);
    ck_assert_double_eq(trace->exposed_us, 0);
}

static const struct {
    const char *text, *expected;
} damages[] = {
    {"", "trace.json is"},
    {"{}", "trace.json is"},
    {BEGIN ",\n", "trace.json:3: "},
    {BEGIN LANE(0, "worker 0") EVENT("a", 0, 1, 2), "trace.json:4: "},
    {BEGIN LANE(0, "worker 0") EVENT("a", 5, 1, 2) END, "trace.json:4: "},
    {BEGIN LANE(0, "worker 0") EVENT("a", 0, 1, -2) END, "trace.json:4: "},
    {BEGIN ",\n{\"name\":\"x\"}" END, "trace.json:3: "},
    {BEGIN "\n],\n\"tasks\":[\n[0,1,\"a\",7" END, "trace.json:5: "},
    {BEGIN "\n],\n\"tasks\":[" TASK(4, "a", 0, 0, "") "," TASK(6, "a", 0, 0, "") END,
     "trace.json:6: "},
    {BEGIN "\n],\n\"iterations\":[\n[1,2]" END, "trace.json:5: "},
};

TEST(a_damaged_trace_is_refused_with_its_line, .runs = COUNT(damages))
{
    const char *path = scratch_write("trace.json", damages[_i].text);
    ck_assert_int_eq(hd_trace_file_read(path, &trace), HD_ERR_FORMAT);
    ck_assert_ptr_null(trace);
    ck_assert_msg(strstr(scratch_log, damages[_i].expected) != NULL, "%s", scratch_log);
}

TEST(a_missing_trace_is_bad_input)
{
    ck_assert_int_eq(hd_trace_file_read(scratch_path("none.json"), &trace), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(scratch_log, "none.json"));
}

TEST(reading_without_memory)
{
    const char *path = scratch_write("trace.json", two_workers);
    int status = HD_ERR_NOMEM;
    int64_t n = 0;
    for (; status != HD_OK; n++) {
        hd_alloc_fail_nth(n + 1);
        status = hd_trace_file_read(path, &trace);
        hd_alloc_fail_nth(0);
        ck_assert(status == HD_OK || status == HD_ERR_NOMEM);
    }
    ck_assert_int_gt(n, 2);
}

/* Iteration 4 is worked at in [20, 45], which iterations 3 and 5 have part in, and not 6. */
TEST(an_iteration_is_cut_out_with_what_ran_beside_it)
{
    static const char text[] = BEGIN LANE(0, "worker 0") EVENT_OF(3, "a", 0, 0.000, 10.000)
        EVENT_OF(4, "a", 0, 20.000, 10.000) EVENT_OF(4, "b", 0, 40.000, 5.000)
            EVENT_OF(6, "a", 0, 60.000, 1.000) LANE(1, "worker 1")
                EVENT_OF(3, "a", 1, 15.000, 10.000) EVENT_OF(5, "b", 1, 30.000, 20.000)
                    LANE(2, "collectives") EVENT_OF(4, "mean(grad)", 2, 5.000, 50.000) END;
    static const int lanes[] = {2, 1, 0, 1, 0}, iterations[] = {4, 3, 4, 5, 4};
    ck_assert_int_eq(hd_trace_file_read(scratch_write("trace.json", text), &trace), HD_OK);
    json_t *json = hd_trace_file_build_json(trace, 2), *events = json_object_get(json, "events");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "iteration")), 4);
    ck_assert_double_eq_tol(json_real_value(json_object_get(json, "begin_s")), 20e-6, 1e-12);
    ck_assert_double_eq_tol(json_real_value(json_object_get(json, "end_s")), 45e-6, 1e-12);
    ck_assert_uint_eq(json_array_size(events), 5 * 6);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(json_integer_value(json_array_get(events, 6 * i)), lanes[i]);
        ck_assert_int_eq(json_integer_value(json_array_get(events, 6 * i + 4)), iterations[i]);
    }
    ck_assert_int_eq(json_integer_value(json_array_get(events, 2)), -150); /* before it began */
    json_decref(json);
    json = hd_trace_file_build_json(trace, 100);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "iteration")), 3);
    json_decref(json);
}
