/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of a run: their file, the numbers they give, and the stopwatch that measures them. */
#include "runner/train/base/stopwatch.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/runner/scratch.h"

#include <stdio.h>
#include <string.h>

static const struct hd_rates sample = {
    .seconds = 4,
    .updates = 200,
    .env_steps = 12800,
    .busy_s = 6,
    .exposed_s = 0.5,
    .workers = 2,
    .gpus = 2,
    .gpu_busy_s = 2,
    .ranks = 3,
    .shards = 6,
    .param_hash = 0xfedcba9876543210u,
    .fingerprint = 0x0123456789abcdefu,
    .n_verbs = 2,
    .verbs = {{"adam", 0.25}, {"collect", 3.5}},
};

TEST(rates_read_back_as_written)
{
    struct hd_rates rates;
    ck_assert_int_eq(hd_rates_write(scratch_path("rates.json"), &sample), HD_OK);
    ck_assert_int_eq(hd_rates_read(scratch_path("rates.json"), &rates), HD_OK);
    ck_assert_double_eq(rates.seconds, sample.seconds);
    ck_assert_int_eq(rates.updates, sample.updates);
    ck_assert_double_eq(rates.env_steps, sample.env_steps);
    ck_assert_double_eq(rates.busy_s, sample.busy_s);
    ck_assert_double_eq(rates.exposed_s, sample.exposed_s);
    ck_assert_int_eq(rates.workers, sample.workers);
    ck_assert_int_eq(rates.gpus, sample.gpus);
    ck_assert_double_eq(rates.gpu_busy_s, sample.gpu_busy_s);
    ck_assert_int_eq(rates.ranks, sample.ranks);
    ck_assert_int_eq(rates.shards, sample.shards);
    ck_assert_uint_eq(rates.param_hash, sample.param_hash);
    ck_assert_uint_eq(rates.fingerprint, sample.fingerprint);
    ck_assert_int_eq(rates.n_verbs, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(rates.verbs[i].verb, sample.verbs[i].verb);
        ck_assert_double_eq(rates.verbs[i].seconds, sample.verbs[i].seconds);
    }
}

TEST(the_numbers_of_a_run)
{
    struct hd_rates full = sample;
    full.busy_s = 9; /* bodies may overlap the ends of the stretch */
    ck_assert_double_eq(hd_rates_get_updates_per_s(&sample), 50);
    ck_assert_double_eq(hd_rates_get_env_steps_per_s(&sample), 3200);
    ck_assert_double_eq(hd_rates_get_busy(&sample), 0.75);
    ck_assert_double_eq(hd_rates_get_gpu_busy(&sample), 0.25);
    ck_assert_double_eq(hd_rates_get_exposed(&sample), 0.125);
    ck_assert_double_eq(hd_rates_get_idle(&sample), 0.125);
    ck_assert_double_eq(hd_rates_get_idle(&full), 0);
}

static const struct {
    const char *text, *expected;
} damages[] = {
    {"", "rates.json"},
    {"[1]", "field"},
    {"{\"seconds\": 1}", "field"},
    {"{\"seconds\": 1", "rates.json"},
};

TEST(a_damaged_file_is_refused, .runs = COUNT(damages))
{
    struct hd_rates rates = {.updates = 5};
    const char *path = scratch_write("rates.json", damages[_i].text);
    ck_assert_int_eq(hd_rates_read(path, &rates), HD_ERR_FORMAT);
    ck_assert_int_eq(rates.updates, 5);
    ck_assert_msg(strstr(scratch_log, damages[_i].expected) != NULL, "%s", scratch_log);
}

TEST(a_missing_file_is_refused)
{
    struct hd_rates rates;
    ck_assert_int_eq(hd_rates_read(scratch_path("none.json"), &rates), HD_ERR_FORMAT);
}

/* -- The stopwatch ----------------------------------------------------------------------------- */

static struct hd_trace *trace;
static const char verb[] = "adam";

static void setup(void)
{
    const struct hd_trace_options options = {.workers = 1};
    scratch_setup();
    ck_assert_int_eq(hd_trace_create(&options, &trace), HD_OK);
}

static void teardown(void)
{
    hd_trace_destroy(trace);
    scratch_teardown();
}

FIXTURE(setup, teardown)

/* A body of `ns` nanoseconds runs on the worker. */
static void work(int64_t ns)
{
    static int64_t now_ns = 1000;
    const struct hd_event event = {.name = verb, .begin_ns = now_ns, .end_ns = now_ns + ns};
    hd_trace_begin(trace, event.begin_ns);
    hd_trace_end(trace, 0, verb, &event);
    now_ns = event.end_ns;
}

TEST(only_the_stretch_is_measured)
{
    struct hd_stopwatch watch = {.after = 10};
    struct hd_rates rates = {.workers = 1};
    work(7000000); /* before it */
    hd_stopwatch_tick(&watch, trace, 8, 4);
    ck_assert(!watch.running);
    hd_stopwatch_tick(&watch, trace, 10, 5);
    ck_assert(watch.running);
    work(2000000);
    hd_stopwatch_tick(&watch, trace, 12, 6);
    work(3000000);
    hd_stopwatch_tick(&watch, trace, 14, 7);
    work(9000000); /* behind it */
    ck_assert_int_eq(hd_stopwatch_read(&watch, 800, 8, &rates), HD_OK);
    ck_assert_int_eq(rates.updates, 4);
    ck_assert_double_eq(rates.env_steps, 200); /* 2 of 8 iterations */
    ck_assert_double_eq_tol(rates.busy_s, 5e-3, 1e-12);
    ck_assert_double_ge(rates.seconds, 0);
    ck_assert_int_eq(rates.n_verbs, 1);
    ck_assert_str_eq(rates.verbs[0].verb, verb);
    ck_assert_double_eq_tol(rates.verbs[0].seconds, 5e-3, 1e-12);
}

TEST(a_run_that_is_too_short_has_no_rates)
{
    struct hd_stopwatch watch = {.after = 10};
    struct hd_rates rates = {0};
    hd_stopwatch_tick(&watch, trace, 10, 5);
    ck_assert_int_eq(hd_stopwatch_read(&watch, 800, 8, &rates), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(scratch_log, "measured"));
}

TEST(a_stopwatch_may_be_off)
{
    struct hd_stopwatch watch = {.after = -1};
    hd_stopwatch_tick(&watch, trace, 1000, 500);
    ck_assert(!watch.running);
}
