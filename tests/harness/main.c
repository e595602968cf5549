/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of all programs of tests. */
#include "tests/harness/check.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { SKIPPED = 77 };

static struct test_entry *entries, **last = &entries;

struct choice {
    bool cuda; /* the tests for GPUs, and no others */
    char **names;
    int n;
};

/* In memory that the tests' processes share with the program: what they left out. */
static struct left_out {
    atomic_int count;
    const char *_Atomic reason;
} * left_out;

struct totals {
    int chosen, added; /* tests that are asked for, and those of them that can be run */
};

static const char usage[] =
    "usage: %s [--cuda] [--list] [SUITE[:TEST] ...]\n\n"
    "Runs the tests of these suites (all). Each test is a process of its own, but for CK_FORK=no.\n"
    "--cuda  runs the tests for GPUs in place of the others\n"
    "--list  prints the names of the tests and runs none\n";

void check_names(const char *message, const char *names)
{
    char name[256];
    for (int length; *names; names += length + (names[length] == '|')) {
        length = (int)strcspn(names, "|");
        ck_assert_int_lt(length, (int)sizeof name);
        snprintf(name, sizeof name, "%.*s", length, names);
        ck_assert_msg(strstr(message, name), "'%s' does not name '%s'", message, name);
    }
}

void *share_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(EXIT_FAILURE);
    }
    return memory;
}

int64_t get_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

void test_register(struct test_entry *entry)
{
    const char *start = entry->file;
    for (const char *at = start; (at = strstr(at, "tests/")); at++)
        start = at + strlen("tests/");
    snprintf(entry->suite, sizeof entry->suite, "%.*s", (int)(strlen(start) - strlen(".c")), start);
    *last = entry;
    last = &entry->next;
}

void test_leave_out(const char *reason)
{
    atomic_store(&left_out->reason, reason);
    atomic_fetch_add(&left_out->count, 1);
}

static bool is_chosen(const struct choice *choice, const struct test_entry *test)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s:%s", test->suite, test->test->name);
    for (int i = 0; i < choice->n; i++)
        if (strcmp(choice->names[i], test->suite) == 0 || strcmp(choice->names[i], whole) == 0)
            return true;
    return choice->n == 0;
}

/* The entries of a file stand in a row. Returns the first one that is another file's. */
static const struct test_entry *find_end(const struct test_entry *first)
{
    const struct test_entry *e = first;
    while (e && strcmp(e->file, first->file) == 0)
        e = e->next;
    return e;
}

static bool is_for_device(const struct choice *choice, const struct test_entry *test)
{
    return test->get_way().cuda == choice->cuda;
}

/* Returns why the tests of a file cannot be run, or NULL. */
static const char *find_hindrance(const struct choice *choice, const struct test_entry *first)
{
    const char *reason = choice->cuda ? "none of it is for GPUs" : "all of it is for GPUs";
    const struct test_entry *end = find_end(first);
    for (const struct test_entry *e = first; e != end; e = e->next)
        if (e->test && is_for_device(choice, e))
            reason = NULL;
    for (const struct test_entry *e = first; e != end && !reason; e = e->next)
        if (e->find_hindrance && (choice->cuda || !e->cuda))
            reason = e->find_hindrance();
    return reason;
}

static void add_entry(const struct choice *choice, const struct test_entry *e, TCase *tests,
                      struct totals *totals)
{
    if (!e->test && (choice->cuda || !e->cuda)) {
        tcase_add_checked_fixture(tests, e->setup, e->teardown);
    } else if (e->test && is_chosen(choice, e) && is_for_device(choice, e)) {
        const struct test_way way = e->get_way();
        _tcase_add_test(tests, e->test, way.signal, 0, 0, way.runs > 0 ? way.runs : 1);
        totals->added++;
    }
}

static void add_suite(const struct choice *choice, const struct test_entry *first, SRunner *runner,
                      struct totals *totals)
{
    const int before = totals->chosen;
    const struct test_entry *end = find_end(first);
    for (const struct test_entry *e = first; e != end; e = e->next)
        totals->chosen += e->test && is_chosen(choice, e);
    const char *hindrance = totals->chosen > before ? find_hindrance(choice, first) : NULL;
    if (hindrance)
        printf("skipped: %s: %s\n", first->suite, hindrance);
    if (hindrance || totals->chosen == before)
        return;
    Suite *suite = suite_create(first->suite);
    TCase *tests = tcase_create(choice->cuda ? "cuda" : "cpu");
    for (const struct test_entry *e = first; e != end; e = e->next)
        add_entry(choice, e, tests, totals);
    suite_add_tcase(suite, tests);
    srunner_add_suite(runner, suite);
}

/* Returns main's exit code after tests of which none failed. */
static int report_left_out(void)
{
    const int n = atomic_load(&left_out->count);
    if (n == 0)
        return EXIT_SUCCESS;
    printf("skipped: %d cases, %s; the others passed\n", n, atomic_load(&left_out->reason));
    return SKIPPED;
}

static int run_tests(const struct choice *choice)
{
    struct totals totals = {0};
    SRunner *runner = srunner_create(NULL);
    for (const struct test_entry *e = entries; e; e = find_end(e))
        add_suite(choice, e, runner, &totals);
    if (totals.added > 0)
        srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (totals.chosen == 0) {
        fprintf(stderr, "there is no such test; --list prints their names\n");
        return EXIT_FAILURE;
    }
    if (failed > 0)
        return EXIT_FAILURE;
    return totals.added > 0 ? report_left_out() : SKIPPED;
}

static int list_tests(const struct choice *choice)
{
    for (const struct test_entry *e = entries; e; e = e->next)
        if (e->test && is_chosen(choice, e) && is_for_device(choice, e))
            printf("%s:%s\n", e->suite, e->test->name);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"cuda", no_argument, NULL, 'c'},
        {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct choice choice = {0};
    bool list = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h' || option == '?') {
            fprintf(option == 'h' ? stdout : stderr, usage, argv[0]);
            return option == 'h' ? EXIT_SUCCESS : EXIT_FAILURE;
        }
        choice.cuda |= option == 'c';
        list |= option == 'l';
    }
    setenv("CK_DEFAULT_TIMEOUT", "0", 0); /* harness/guard has a limit, and prints stacks */
    left_out = share_memory(sizeof *left_out);
    choice.names = argv + optind;
    choice.n = argc - optind;
    return list ? list_tests(&choice) : run_tests(&choice);
}
