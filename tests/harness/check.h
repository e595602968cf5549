/* SPDX-License-Identifier: Apache-2.0 */
/* libcheck with tests that register themselves, and with assertions that note their place only if
 * they fail: libcheck's own write the name of the file with every comparison, which takes most of
 * the time of tests that compare arrays.
 *
 * All test_*.c of a folder are one program, whose main is harness/main.c. Each file is a suite,
 * named by its path below tests/ without ".c". */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                                   \
    ((expr)                                                                                        \
         ? (void)0                                                                                 \
         : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", ##__VA_ARGS__))

/* Fails unless a message has each of `names`, separated by '|': the place, the keys and the numbers
 * that it is about, whatever its wording. */
void check_names(const char *message, const char *names);

/* Returns the nanoseconds of CPU time that this process has used. */
int64_t get_cpu_ns(void);

/* Returns zeroed memory that this process shares with those that it forks later. */
void *share_memory(size_t bytes);

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* How a test is run. */
struct test_way {
    int runs;   /* so many times, with _i = 0, 1, ... (0: once) */
    int signal; /* the signal that has to end it (0: it ends by itself) */
    bool cuda;  /* on a GPU, or on the emulation of one */
};

/* Called by a test that cannot make what it was about to; says why, in a literal. The program then
 * counts as skipped, unless it fails. */
void test_leave_out(const char *reason);

/* A test, or what holds for all tests of its file. */
struct test_entry {
    const char *file;
    char suite[96]; /* the file's */
    const TTest *test;
    struct test_way (*get_way)(void); /* called only if the test is to be run */
    void (*setup)(void), (*teardown)(void);
    const char *(*find_hindrance)(void); /* returns why the tests cannot be run, or NULL */
    bool cuda;                           /* holds for the file's tests for GPUs alone */
    struct test_entry *next;
};

/* Keeps an entry, which is static, and names its suite. Called by the macros below, before main. */
void test_register(struct test_entry *entry);

#define TEST_REGISTER_(name, ...)                                                                  \
    __attribute__((constructor)) static void name##_register(void)                                 \
    {                                                                                              \
        static struct test_entry entry = {.file = __BASE_FILE__, __VA_ARGS__};                     \
        test_register(&entry);                                                                     \
    }
#define TEST_REGISTER_NUMBER_(n, ...) TEST_REGISTER_(entry_##n, __VA_ARGS__)
#define TEST_REGISTER_NEXT_(n, ...) TEST_REGISTER_NUMBER_(n, __VA_ARGS__)

/* TEST(name) { ... } is a test of this file's suite. TEST(name, .runs = n) is run n times, with _i
 * from 0 to n - 1; the other fields are those of struct test_way. */
#define TEST(name, ...)                                                                            \
    static void name(int _i);                                                                      \
    static struct test_way name##_get_way(void)                                                    \
    {                                                                                              \
        return (struct test_way){__VA_ARGS__};                                                     \
    }                                                                                              \
    static const TTest name##_test = {#name, name, __FILE__, __LINE__};                            \
    TEST_REGISTER_(name, .test = &name##_test, .get_way = name##_get_way)                          \
    static void name(int _i __attribute__((unused)))

/* Functions (or NULL) that are called before and after each test of this file, in its process. */
#define FIXTURE(...) TEST_FIXTURE_(__VA_ARGS__)
#define TEST_FIXTURE_(setup_, teardown_)                                                           \
    TEST_REGISTER_NEXT_(__COUNTER__, .setup = (setup_), .teardown = (teardown_))

/* All tests of this file are skipped if the function returns a reason. */
#define PREREQUISITE(find_hindrance_)                                                              \
    TEST_REGISTER_NEXT_(__COUNTER__, .find_hindrance = (find_hindrance_))
