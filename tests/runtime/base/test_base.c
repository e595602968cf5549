/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest layer: status codes, messages, memory, hashes, clocks. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- Status ------------------------------------------------------------------------------------ */

TEST(test_status)
{
    static const struct {
        int status, exit_code;
    } cases[] = {{HD_OK, 0},           {HD_ERR_INPUT, 2},        {HD_ERR_NOMEM, 1},
                 {HD_ERR_TASK, 1},     {HD_ERR_WATCHDOG, 3},     {HD_ERR_DIVERGED, 4},
                 {HD_ERR_STOPPED, 75}, {HD_ERR_INTERRUPTED, 130}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_int_eq(hd_status_get_exit_code(cases[i].status), cases[i].exit_code);
    ck_assert_str_eq(hd_status_get_text(HD_ERR_NOMEM), "out of memory");
    ck_assert_str_eq(hd_status_get_text(-12345), "unknown status");
    ck_assert_str_eq(hd_status_get_text(7), "unknown status");
    ck_assert_int_eq(hd_status_get_exit_code(-12345), 1);
}

static int tries;

static int counted(int status)
{
    tries++;
    return status;
}

static int try_twice(int first, int second)
{
    HD_TRY(counted(first));
    HD_TRY(counted(second));
    return HD_OK;
}

static int try_with_cleanup(int first, int *cleaned)
{
    int status;
    HD_TRY_GOTO(counted(first), status, cleanup);
    status = counted(HD_OK);
cleanup:
    *cleaned = 1;
    return status;
}

TEST(test_try_stops_at_the_first_failure)
{
    ck_assert_int_eq(try_twice(HD_OK, HD_OK), HD_OK);
    ck_assert_int_eq(tries, 2);
    ck_assert_int_eq(try_twice(HD_ERR_TASK, HD_OK), HD_ERR_TASK);
    ck_assert_int_eq(tries, 3); /* and each expression is evaluated once */
    int cleaned = 0;
    ck_assert_int_eq(try_with_cleanup(HD_ERR_PEER, &cleaned), HD_ERR_PEER);
    ck_assert_int_eq(tries, 4);
    ck_assert_int_eq(cleaned, 1);
}

/* -- Messages ---------------------------------------------------------------------------------- */

static struct {
    int count;
    enum hd_log_level level;
    char line[8192];
} seen;

static void see(enum hd_log_level level, const char *line, void *arg)
{
    ck_assert_ptr_eq(arg, &seen);
    seen.count++;
    seen.level = level;
    snprintf(seen.line, sizeof seen.line, "%s", line);
}

TEST(test_sink_and_levels)
{
    hd_log_set_sink(see, &seen);
    errno = ENOENT;
    ck_assert_int_eq(hd_fail(HD_ERR_TASK, "%s %d", "task", 7), HD_ERR_TASK);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(seen.line, "error: task 7");
    hd_log(HD_LOG_INFO, "a \033]0;b\a\302\233 \303\244\n\t"); /* no commands for a terminal */
    ck_assert_str_eq(seen.line, "a ?]0;b??? \303\244\n\t");
    hd_log(HD_LOG_WARN, "careful");
    ck_assert_str_eq(seen.line, "warning: careful");
    hd_log(HD_LOG_INFO, "plain");
    ck_assert_str_eq(seen.line, "plain");
    ck_assert_int_eq(seen.level, HD_LOG_INFO);
    hd_log(HD_LOG_DEBUG, "dropped by default");
    ck_assert_int_eq(seen.count, 4);
    hd_log_set_level(HD_LOG_DEBUG);
    hd_log(HD_LOG_DEBUG, "shown");
    ck_assert_str_eq(seen.line, "debug: shown");
    hd_log_set_level(HD_LOG_ERROR);
    hd_log(HD_LOG_WARN, "dropped");
    ck_assert_int_eq(seen.count, 5);
}

TEST(test_ranks)
{
    hd_log_set_sink(see, &seen);
    hd_log_set_rank(0, 1);
    hd_log(HD_LOG_ERROR, "alone");
    ck_assert_str_eq(seen.line, "error: alone");
    hd_log_set_rank(2, 4);
    hd_log(HD_LOG_ERROR, "one of four");
    ck_assert_str_eq(seen.line, "[rank 2] error: one of four");
    hd_log(HD_LOG_INFO, "only rank 0 says this");
    ck_assert_int_eq(seen.count, 2);
    hd_log_set_rank(0, 4);
    hd_log(HD_LOG_INFO, "said");
    ck_assert_str_eq(seen.line, "said");
    hd_log_set_rank(-1, 0);
    hd_log(HD_LOG_ERROR, "no rank");
    ck_assert_str_eq(seen.line, "error: no rank");
}

TEST(test_long_messages_are_cut)
{
    char *text = malloc(100001);
    memset(text, 'x', 100000);
    text[100000] = '\0';
    hd_log_set_sink(see, &seen);
    hd_log(HD_LOG_ERROR, "%s", text);
    ck_assert_uint_lt(strlen(seen.line), 4096);
    ck_assert_uint_gt(strlen(seen.line), 3000);
    free(text);
}

/* -- Memory ------------------------------------------------------------------------------------ */

TEST(test_alloc)
{
    for (int64_t n = 0; n < 300; n += 7) {
        unsigned char *memory = hd_alloc(n, 3);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % HD_ALIGNMENT, 0);
        for (int64_t i = 0; i < 3 * n; i++)
            ck_assert_uint_eq(memory[i], 0);
        memset(memory, 0xAB, (size_t)(3 * n)); /* so that reuse would show */
        hd_free(memory);
    }
    errno = EINTR;
    hd_free(NULL);
    ck_assert_int_eq(errno, EINTR);
}

TEST(test_alloc_refuses)
{
    static const struct {
        int64_t count;
        size_t size;
    } cases[] = {{-1, 1}, {INT64_MAX, 4}, {1, SIZE_MAX}, {INT64_MIN, 1}, {1 << 30, SIZE_MAX >> 20}};
    hd_log_set_sink(see, &seen);
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_null(hd_alloc(cases[i].count, cases[i].size));
        ck_assert_int_eq(seen.count, i + 1);
        ck_assert_int_eq(seen.level, HD_LOG_ERROR);
    }
}

TEST(test_fail_nth)
{
    hd_log_set_sink(see, &seen);
    hd_alloc_fail_nth(3);
    for (int i = 1; i <= 6; i++) {
        void *memory = hd_alloc(1, 1);
        ck_assert_int_eq(memory == NULL, i == 3);
        hd_free(memory);
    }
    hd_alloc_fail_nth(1);
    hd_alloc_fail_nth(0);
    char *text = hd_strdup("kept");
    ck_assert_str_eq(text, "kept");
    hd_free(text);
    hd_alloc_fail_nth(1);
    ck_assert_ptr_null(hd_strdup("x"));
    hd_alloc_fail_nth(1);
    ck_assert_ptr_null(hd_format("%d", 1));
}

TEST(test_grow)
{
    void *list = NULL;
    int64_t capacity = 0;
    for (int64_t n = 1; n <= 1000; n++) {
        ck_assert_int_eq(hd_grow(&list, &capacity, n, sizeof(int64_t)), HD_OK);
        ck_assert_int_ge(capacity, n);
        ck_assert_int_eq(((int64_t *)list)[n - 1], 0);
        ((int64_t *)list)[n - 1] = n * n;
    }
    for (int64_t n = 1; n <= 1000; n++)
        ck_assert_int_eq(((int64_t *)list)[n - 1], n * n);
    ck_assert_int_lt(capacity, 2000);
    void *before = list;
    int64_t old = capacity;
    ck_assert_int_eq(hd_grow(&list, &capacity, 5, sizeof(int64_t)), HD_OK);
    ck_assert_ptr_eq(list, before);
    hd_log_set_sink(see, &seen);
    hd_alloc_fail_nth(1);
    ck_assert_int_eq(hd_grow(&list, &capacity, old + 1, sizeof(int64_t)), HD_ERR_NOMEM);
    ck_assert_ptr_eq(list, before);
    ck_assert_int_eq(capacity, old);
    hd_free(list);
}

TEST(test_texts)
{
    char *text = hd_format("%s-%05d", "a", 42);
    ck_assert_str_eq(text, "a-00042");
    hd_free(text);
    text = hd_format("%5000d", 1);
    ck_assert_uint_eq(strlen(text), 5000);
    hd_free(text);
    text = hd_strdup("");
    ck_assert_str_eq(text, "");
    hd_free(text);
}

/* -- Hashes ------------------------------------------------------------------------------------ */

TEST(test_hash_of_parts_continues)
{
    int64_t n = 3 * HD_BLOCK + 17;
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)i * 0.25f;
    uint64_t whole = hd_hash_floats(0, data, n);
    for (int64_t blocks = 0; blocks <= 3; blocks++) {
        int64_t cut = blocks * HD_BLOCK;
        uint64_t parts = hd_hash_floats(hd_hash_floats(0, data, cut), data + cut, n - cut);
        ck_assert_uint_eq(parts, whole);
    }
    for (int64_t i = 0; i < n; i += 1021) {
        float saved = data[i];
        data[i] = -saved - 1;
        ck_assert_uint_ne(hd_hash_floats(0, data, n), whole);
        data[i] = saved;
    }
    ck_assert_uint_ne(hd_hash_floats(0, data, n - 1), whole);
    ck_assert_uint_eq(hd_hash_floats(5, data, 0), 5);
    data[0] = 0.0f;
    uint64_t zero = hd_hash_floats(0, data, 1);
    data[0] = -0.0f; /* bits, not values */
    ck_assert_uint_ne(hd_hash_floats(0, data, 1), zero);
    free(data);
}

TEST(test_hash)
{
    /* XXH3's published value of the empty input: stored hashes outlive a program. */
    ck_assert_uint_eq(hd_hash_bytes("", 0), UINT64_C(0x2D06800538D394C2));
    ck_assert_uint_eq(hd_hash_text("abc"), hd_hash_bytes("abcd", 3));
    ck_assert_uint_ne(hd_hash_text("abc"), hd_hash_text("abd"));
    ck_assert_uint_ne(hd_hash_mix(1, 2), hd_hash_mix(2, 1));
    ck_assert_uint_ne(hd_hash_mix(0, 0), 0);
    uint64_t pair[2] = {0, 0}, hash = 0;
    for (int i = 0; i < 1000; i++) {
        hash = hd_hash_mix(pair[0], pair[1]);
        ck_assert_uint_eq(hash, hd_hash_bytes(pair, sizeof pair));
        pair[i % 2] = hash;
    }
}

static uint64_t hash_file_of(const char *path, int64_t bytes, char last)
{
    uint64_t hash = 0;
    FILE *file = fopen(path, "wb");
    for (int64_t i = 0; i < bytes; i++)
        fputc(i == bytes - 1 ? last : 'x', file);
    fclose(file);
    ck_assert(hd_hash_file(path, &hash));
    return hash;
}

TEST(test_hash_of_files)
{
    enum { MANY = 100000 };
    char folder[] = "/tmp/heddle-hash-XXXXXX", path[64];
    uint64_t untouched = 7;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    ck_assert(!hd_hash_file(path, &untouched) && errno == ENOENT);
    ck_assert(!hd_hash_file(folder, &untouched) && errno == EISDIR);
    ck_assert_uint_eq(untouched, 7);
    ck_assert_uint_eq(hash_file_of(path, MANY, 'a'), hash_file_of(path, MANY, 'a'));
    ck_assert_uint_ne(hash_file_of(path, MANY, 'a'), hash_file_of(path, MANY, 'b'));
    ck_assert_uint_ne(hash_file_of(path, MANY, 'x'), hash_file_of(path, MANY - 1, 'x'));
    hash_file_of(path, 0, 'a');
    unlink(path);
    rmdir(folder);
}

/* -- Clocks ------------------------------------------------------------------------------------ */

TEST(test_clocks)
{
    int64_t last = hd_clock_get_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = hd_clock_get_ns();
        ck_assert_int_ge(now, last);
        last = now;
    }
    ck_assert_int_gt(hd_clock_get_wall_ns(), INT64_C(1700000000) * 1000000000); /* after 2023 */
}

/* How late a nap ends depends on the machine; none may end early, and the longest still ends soon.
 */
TEST(test_naps)
{
    static const struct {
        int64_t waited_ns, nap_ns;
    } cases[] = {{0, 50000}, {500000000, 550000}, {INT64_MAX, 2000000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t begin_ns = hd_clock_get_ns();
        hd_nap(cases[i].waited_ns);
        ck_assert_int_ge(hd_clock_get_ns() - begin_ns, cases[i].nap_ns);
    }
}
