/* SPDX-License-Identifier: Apache-2.0 */
/* Tests mistakes: their order, their one-line form, repetitions, bounds; and the nearest name. */
#include "runtime/base/alloc.h"
#include "runtime/base/config/diag.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

static struct hd_diag *new_diag(void)
{
    struct hd_diag *diag;
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
    return diag;
}

static struct hd_source_location at(const char *file, int line, int column)
{
    return (struct hd_source_location){file, line, column};
}

TEST(test_empty)
{
    struct hd_diag *diag = new_diag();
    ck_assert_int_eq(hd_diag_count(diag), 0);
    ck_assert_int_eq(hd_diag_report(diag), HD_OK);
    ck_assert_ptr_null(hd_diag_get_line(diag, 0));
    ck_assert_ptr_null(hd_diag_get_line(diag, -1));
    hd_diag_destroy(diag);
    hd_diag_destroy(NULL);
}

TEST(test_order_of_place)
{
    static const char *const expected[] = {
        "--set:2:1: option", "a.yaml: whole", "a.yaml:2:9: late",  "a.yaml:10:1: first here",
        "a.yaml:10:1: then", "b.yaml:1:1: x", "b.yaml.old:1:1: y",
    };
    struct hd_diag *diag = new_diag();
    hd_diag_add_error(diag, at("b.yaml.old", 1, 1), "y");
    hd_diag_add_error(diag, at("b.yaml", 1, 1), "x");
    hd_diag_add_error(diag, at("a.yaml", 10, 1), "first %s", "here");
    hd_diag_add_error(diag, at("a.yaml", 10, 1), "then");
    hd_diag_add_error(diag, at("a.yaml", 2, 9), "late");
    hd_diag_add_error(diag, at("a.yaml", 0, 0), "whole");
    ck_assert_int_eq(hd_diag_add_error(diag, at("--set", 2, 1), "option"), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 7);
    for (int i = 0; i < 7; i++)
        ck_assert_str_eq(hd_diag_get_line(diag, i), expected[i]);
    ck_assert_ptr_null(hd_diag_get_line(diag, 7));
    hd_diag_destroy(diag);
}

TEST(test_repetitions_are_kept_once)
{
    struct hd_diag *diag = new_diag();
    for (int i = 0; i < 5; i++) {
        hd_diag_add_error(diag, at("a", 1, 1), "one");
        hd_diag_add_error(diag, at("a", 1, 1), "two");
    }
    ck_assert_int_eq(hd_diag_count(diag), 2);
    hd_diag_add_error(diag, at("a", 1, 2), "one");
    ck_assert_int_eq(hd_diag_count(diag), 3);
    hd_diag_destroy(diag);
}

TEST(test_the_file_name_may_go)
{
    struct hd_diag *diag = new_diag();
    char *name = strdup("gone.yaml");
    hd_diag_add_error(diag, at(name, 2, 1), "second");
    memset(name, 'x', strlen(name));
    free(name);
    hd_diag_add_error(diag, at("gone.yaml", 1, 1), "first");
    ck_assert_str_eq(hd_diag_get_line(diag, 0), "gone.yaml:1:1: first");
    hd_diag_destroy(diag);
}

TEST(test_lines_are_tidy)
{
    struct hd_diag *diag = new_diag();
    hd_diag_add_error(diag, at("a", 1, 1), "line\nbreak\tand \x1b[31m");
    ck_assert_str_eq(hd_diag_get_line(diag, 0), "a:1:1: line?break?and ?[31m");
    char *huge = malloc(100001);
    for (int i = 0; i < 100000; i += 2)
        memcpy(huge + i, "\xC3\xA4", 2); /* ä */
    huge[100000] = '\0';
    hd_diag_add_error(diag, at("a", 2, 1), "%s", huge);
    hd_diag_add_error(diag, at("a", 3, 1), "x%s", huge);
    for (int i = 1; i <= 2; i++) {
        const char *line = hd_diag_get_line(diag, i);
        size_t length = strlen(line);
        ck_assert_uint_le(length, 2047);
        ck_assert_str_eq(line + length - 3, "...");
        ck_assert_int_eq((unsigned char)line[length - 4], 0xA4); /* whole characters only */
    }
    free(huge);
    hd_diag_destroy(diag);
}

static int lines_seen;
static char last_line[256];

static void count_line(enum hd_log_level level, const char *line, void *arg)
{
    ck_assert_ptr_eq(arg, &lines_seen);
    ck_assert_int_eq(level, HD_LOG_ERROR);
    lines_seen++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

TEST(test_report_is_bounded)
{
    struct hd_diag *diag = new_diag();
    for (int i = 1; i <= 3000; i++)
        hd_diag_add_error(diag, at("a", i, 1), "mistake");
    ck_assert_int_eq(hd_diag_count(diag), 3000);
    hd_log_set_sink(count_line, &lines_seen);
    ck_assert_int_eq(hd_diag_report(diag), HD_ERR_INPUT);
    ck_assert_int_eq(lines_seen, 51);
    ck_assert_str_eq(last_line, "error: and 2950 more mistakes");
    hd_diag_destroy(diag);
}

static void drop_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

TEST(test_mistakes_count_without_memory)
{
    hd_log_set_sink(drop_line, NULL);
    struct hd_diag *diag = NULL;
    hd_alloc_fail_nth(1);
    ck_assert_int_eq(hd_diag_create(&diag), HD_ERR_NOMEM);
    ck_assert_ptr_null(diag);
    diag = new_diag();
    for (int n = 1; n <= 2; n++) {
        hd_alloc_fail_nth(n);
        ck_assert_int_eq(hd_diag_add_error(diag, at("a", n, 1), "x"), HD_ERR_INPUT);
        ck_assert_int_eq(hd_diag_count(diag), n);
        ck_assert_ptr_null(hd_diag_get_line(diag, 0));
    }
    hd_alloc_fail_nth(0);
    ck_assert_int_eq(hd_diag_report(diag), HD_ERR_INPUT);
    hd_diag_destroy(diag);
}

static const char *const names[] = {"policy",     "env", "max_env_step", NULL, "seed",
                                    "batch_size", "a",   "policies"};

static const struct {
    const char *name, *nearest;
} nearest_cases[] = {
    {"polcy", "policy"},     /* deletion */
    {"polyci", "policy"},    /* a swap and nothing else */
    {"POLICY", "policy"},    /* case */
    {"policie", "policies"}, /* the nearer of two */
    {"ebv", "env"},          /* two names at distance 2 at most: the first that is nearest */
    {"max_step_env", NULL},  /* too far */
    {"max_env_stepps", "max_env_step"},
    {"batchsize", "batch_size"},
    {"sede", "seed"},
    {"sde", NULL}, /* two of three letters differ */
    {"eseed", "seed"},
    {"b", NULL},
    {"", NULL},
    {"zzzzzzzz", NULL},
};

TEST(test_nearest_name, .runs = COUNT(nearest_cases))
{
    const char *got = hd_find_nearest_name(nearest_cases[_i].name, names, 8);
    if (nearest_cases[_i].nearest)
        ck_assert_str_eq(got, nearest_cases[_i].nearest);
    else
        ck_assert_ptr_null(got);
}

TEST(test_nearest_name_of_long_names)
{
    char long_name[5000];
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    const char *const list[] = {long_name, "aa"};
    ck_assert_ptr_null(hd_find_nearest_name(long_name, list, 2));
    ck_assert_str_eq(hd_find_nearest_name("aaa", list, 2), "aa");
    ck_assert_ptr_null(hd_find_nearest_name("aaa", NULL, 0));
}
