/* SPDX-License-Identifier: Apache-2.0 */
/* Run directories read back: config, result, the parts of a resumed run, and damaged files. */
#include "runner/history/history.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/runner/scratch.h"

#include <string.h>

static const char config[] = "exp_name: pong\n"
                             "env:\n"
                             "  stop_value: 18\n"
                             "policy:\n"
                             "  model:\n"
                             "    encoder_hidden_size_list: [128, 64]\n"
                             "  other:\n"
                             "  - name: a\n"
                             "  - name: b\n";

/* The run was resumed at update 20, so what came after that was lost. */
static const char metrics[] =
    "{\"start\": {\"time\": 1000, \"update\": 0, \"workers\": 2}}\n"
    "{\"s\": 1, \"update\": 10}\n"
    "{\"s\": 2, \"update\": 20}\n"
    "{\"s\": 3, \"update\": 30}\n"
    "{\"end\": {\"reason\": \"stopped\"}}\n"
    "{\"start\": {\"time\": 2000, \"update\": 20, \"workers\": 4}}\n"
    "{\"s\": 1.5, \"update\": 25, \"busy_s\": 3, \"exposed_s\": 0.75}\n"
    "{\"end\": {\"reason\": \"solved\", \"verbs\": [[\"a\", 1, 0.5], [\"b\", 2, 2.5]]}}\n"
    "{\"s\": 9, \"upd";

static struct hd_history history;

static void setup(void)
{
    scratch_setup();
    scratch_write("total_config.yaml", config);
}

static void teardown(void)
{
    hd_history_release(&history);
    scratch_teardown();
}

FIXTURE(setup, teardown)

TEST(a_config_is_read_leaf_by_leaf)
{
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_OK);
    ck_assert_str_eq(history.config_text, config);
    ck_assert_uint_eq(json_array_size(history.config), 5);
    ck_assert_str_eq(hd_history_get_key(&history, "exp_name"), "pong");
    ck_assert_str_eq(hd_history_get_key(&history, "env.stop_value"), "18");
    ck_assert_str_eq(hd_history_get_key(&history, "policy.model.encoder_hidden_size_list"),
                     "[128, 64]");
    ck_assert_str_eq(hd_history_get_key(&history, "policy.other.1.name"), "b");
    ck_assert_str_eq(hd_history_get_key(&history, "policy.other"), "");
    ck_assert_ptr_null(history.result);
    ck_assert_ptr_null(history.start);
    ck_assert_ptr_null(history.trace);
    ck_assert_int_eq(history.starts, 0);
}

TEST(parts_of_a_run_are_joined)
{
    static const double seconds[] = {1, 2, 4.5}, updates[] = {10, 20, 25};
    scratch_write("log/metrics.jsonl", metrics);
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_OK);
    ck_assert_int_eq(history.starts, 2);
    ck_assert_uint_eq(json_array_size(history.samples), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *sample = json_array_get(history.samples, i);
        ck_assert_double_eq(json_number_value(json_object_get(sample, "s")), seconds[i]);
        ck_assert_double_eq(json_number_value(json_object_get(sample, "update")), updates[i]);
    }
    ck_assert_double_eq(json_number_value(json_object_get(history.start, "offset_s")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(history.start, "workers")), 4);
    ck_assert_str_eq(json_string_value(json_object_get(history.end, "reason")), "solved");
}

TEST(a_result_is_read)
{
    scratch_write("result.json", "{\"reason\": \"solved\"}\n");
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_OK);
    ck_assert_str_eq(json_string_value(json_object_get(history.result, "reason")), "solved");
}

static const struct {
    const char *file, *text, *expected;
} damages[] = {
    {"total_config.yaml", "[a, b]\n", "total_config.yaml"},
    {"total_config.yaml", "a: [\n", "total_config.yaml:"},
    {"result.json", "[1]\n", "result.json"},
    {"result.json", "{\n\"a\": }\n", "result.json:2: "},
    {"log/metrics.jsonl", "{\"s\": 1}\nrubbish\n", "metrics.jsonl:2: "},
    {"trace.json", "rubbish", "trace.json"},
};

TEST(a_damaged_file_is_refused, .runs = COUNT(damages))
{
    scratch_write(damages[_i].file, damages[_i].text);
    const int status = hd_history_read(scratch_dir, &history);
    ck_assert(status == HD_ERR_FORMAT || (_i == 1 && status == HD_ERR_INPUT));
    ck_assert_msg(strstr(scratch_log, damages[_i].expected) != NULL, "%s", scratch_log);
    ck_assert_ptr_null(history.config_text);
}

TEST(other_directories_are_bad_input)
{
    ck_assert_int_eq(hd_history_read("/nonexistent/run", &history), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(scratch_log, "/nonexistent/run"));
    ck_assert_int_eq(hd_history_read(scratch_path("total_config.yaml"), &history), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(scratch_log, "is a file"));
    ck_assert_int_eq(remove(scratch_path("total_config.yaml")), 0);
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(scratch_log, "no total_config.yaml"));
}

TEST(a_page_gets_everything)
{
    scratch_write("log/metrics.jsonl", metrics);
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_OK);
    json_t *page = hd_history_build_json(&history, true, 1);
    ck_assert_ptr_nonnull(page);
    ck_assert_str_eq(json_string_value(json_object_get(page, "name")), "pong");
    ck_assert_int_eq(json_integer_value(json_object_get(page, "stop_value")), 18);
    ck_assert_int_eq(json_integer_value(json_object_get(page, "starts")), 2);
    ck_assert(json_is_null(json_object_get(page, "result")));
    ck_assert(json_is_null(json_object_get(page, "trace")));
    const json_t *rows = json_object_get(json_object_get(page, "samples"), "rows");
    ck_assert_uint_eq(json_array_size(rows), 3);
    ck_assert_double_eq(json_number_value(json_array_get(json_array_get(rows, 2), 0)), 4.5);
    json_decref(page);
}

static const char *format_times(void)
{
    static char text[4096];
    FILE *memory = fmemopen(text, sizeof text, "w");
    ck_assert_int_eq(hd_history_print_times(&history, 0, memory), HD_OK);
    fclose(memory);
    return text;
}

TEST(times_come_from_the_last_part)
{
    scratch_write("log/metrics.jsonl", metrics);
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_OK);
    const char *text = format_times();
    const char *a = strstr(text, "\na "), *b = strstr(text, "\nb ");
    ck_assert(a && b && b < a); /* in the order of their time */
    ck_assert_msg(strstr(text, "1.500 s of training, 4 workers of rank 0 busy 50.0 %, "
                               "communication exposed 50.0 %") == text,
                  "%s", text);
}

TEST(a_run_without_times_says_so)
{
    ck_assert_int_eq(hd_history_read(scratch_dir, &history), HD_OK);
    const char *text = format_times();
    check_names(text, "--trace");
}
