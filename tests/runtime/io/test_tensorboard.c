/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the checksums of event files with known answers, and the framing of every record;
 * tests/interop tests what TensorBoard reads. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/append.h"
#include "runtime/io/tensorboard.h"
#include "tests/harness/check.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TEST(crc32c_has_its_known_answers)
{
    const char zeros[32] = {0};
    ck_assert_uint_eq(hd_crc32c_compute("123456789", 9), 0xE3069283u);
    ck_assert_uint_eq(hd_crc32c_compute("", 0), 0);
    ck_assert_uint_eq(hd_crc32c_compute(zeros, sizeof zeros), 0x8A9136AAu); /* RFC 3720, B.4 */
}

static char directory[] = "/tmp/heddle-tb-XXXXXX";
static struct hd_tensorboard *board;
static unsigned char data[8 << 20];
static size_t bytes;         /* of data: the event file */
static int errors, warnings; /* reported */
static char last_line[1024];

static void listen(enum hd_log_level level, const char *line, void *arg)
{
    (void)arg;
    errors += level == HD_LOG_ERROR;
    warnings += level == HD_LOG_WARN;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(hd_tensorboard_create(directory, &board), HD_OK);
    hd_log_set_sink(listen, NULL);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
}

FIXTURE(setup, teardown)

/* Reads the only file of the directory. */
static void read_events(void)
{
    DIR *list = opendir(directory);
    const struct dirent *entry;
    char path[512] = "";
    int files = 0;
    while ((entry = readdir(list)))
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0) {
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            files++;
        }
    closedir(list);
    ck_assert_int_eq(files, 1);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    bytes = fread(data, 1, sizeof data, file);
    ck_assert_uint_lt(bytes, sizeof data);
    fclose(file);
}

/* A scalar as a generic protobuf reader sees it; `has` tells which fields it found. */
struct scalar {
    char tag[256];
    double wall_s;
    int64_t step;
    float value;
    bool has_value;
};

static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    int shift = 0;
    do
        value |= (uint64_t)(**at & 0x7F) << shift, shift += 7;
    while (*(*at)++ & 0x80);
    return value;
}

/* Decodes fields by number and wire type: 1 double, 2 varint, 5 message, 5.1 message, 5.1.1
 * text, 5.1.2 float. */
static void decode(const unsigned char *at, const unsigned char *end, struct scalar *scalar)
{
    while (at < end) {
        unsigned char key = *at++;
        if (key == (1 << 3 | 1)) {
            memcpy(&scalar->wall_s, at, 8);
            at += 8;
        } else if (key == (2 << 3 | 0)) {
            scalar->step = (int64_t)varint(&at);
        } else if (key == (2 << 3 | 5)) {
            memcpy(&scalar->value, at, 4);
            scalar->has_value = true;
            at += 4;
        } else if (key == (5 << 3 | 2) || key == (1 << 3 | 2)) {
            uint64_t length = varint(&at);
            if (key == (1 << 3 | 2) && *at != (1 << 3 | 2)) {
                ck_assert_uint_lt(length, sizeof scalar->tag);
                memcpy(scalar->tag, at, length);
                at += length;
            } /* else: the fields of the inner message follow */
        } else {
            ck_abort_msg("unknown field key %d", key);
        }
    }
}

/* Checks the framing of every record and decodes those behind the first; returns how many are
 * whole, and, in rest_p, how many bytes follow them. */
static int decode_all(struct scalar *scalars, int max, size_t *rest_p)
{
    size_t at = 0;
    int records = 0;
    while (at + 16 <= bytes) {
        uint64_t length;
        uint32_t crc;
        memcpy(&length, data + at, 8);
        memcpy(&crc, data + at + 8, 4);
        ck_assert_uint_eq(crc, hd_crc32c_compute_masked(data + at, 8));
        if (at + 16 + length > bytes)
            break;
        memcpy(&crc, data + at + 12 + length, 4);
        ck_assert_uint_eq(crc, hd_crc32c_compute_masked(data + at + 12, length));
        if (records == 0)
            ck_assert(memmem(data + at, length + 16,
                             "\x1a\x0d"
                             "brain.Event:2",
                             15) != NULL);
        ck_assert_int_le(records, max);
        if (records > 0) {
            scalars[records - 1] = (struct scalar){0};
            decode(data + at + 12, data + at + 12 + length, &scalars[records - 1]);
        }
        at += 16 + length;
        records++;
    }
    *rest_p = bytes - at;
    return records - 1;
}

TEST(every_record_carries_its_checksums_and_numbers)
{
    static const double values[] = {0, -0.0, 1.5, -1e30, 1e-40, INFINITY, NAN, 0};
    enum { N = sizeof values / sizeof *values };
    struct scalar scalars[N];
    size_t rest;
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(hd_tensorboard_add_scalar(board, "learner_iter/loss", (int64_t)i << 40,
                                                   1.5 + i, values[i]),
                         HD_OK);
    int64_t length = hd_tensorboard_get_length(board);
    hd_tensorboard_destroy(board);
    read_events();
    ck_assert_uint_eq(bytes, (size_t)length);
    ck_assert_int_eq(decode_all(scalars, N, &rest), N);
    ck_assert_uint_eq(rest, 0);
    for (int i = 0; i < N; i++) {
        const float expected = (float)values[i];
        ck_assert_str_eq(scalars[i].tag, "learner_iter/loss");
        ck_assert_int_eq(scalars[i].step, (int64_t)i << 40);
        ck_assert(scalars[i].wall_s == 1.5 + i);
        ck_assert_msg(scalars[i].has_value, "a reader sees no value where it is %g", expected);
        ck_assert(memcmp(&scalars[i].value, &expected, sizeof expected) == 0);
    }
}

/* -- Reading ----------------------------------------------------------------------------------- */

static char path_of_events[512];

struct seen {
    int n;
    int64_t steps[8];
    double walls[8], values[8];
};

static void see(void *arg, const char *tag, int64_t step, double wall_s, double value)
{
    struct seen *seen = arg;
    ck_assert_str_eq(tag, "learner_iter/loss");
    ck_assert_int_lt(seen->n, 8);
    seen->steps[seen->n] = step;
    seen->walls[seen->n] = wall_s;
    seen->values[seen->n++] = value;
}

/* Reads three scalars from a copy that a test may change. */
static int read_back(struct seen *seen)
{
    for (int i = 0; i < 3; i++)
        hd_tensorboard_add_scalar(board, "learner_iter/loss", 100 * i, 1.25 + i, i - 1.5);
    hd_tensorboard_destroy(board);
    read_events();
    snprintf(path_of_events, sizeof path_of_events, "%s/events.out.copy", directory);
    FILE *file = fopen(path_of_events, "wb");
    fwrite(data, 1, bytes, file);
    fclose(file);
    return hd_tensorboard_read(path_of_events, see, seen);
}

TEST(what_is_written_is_read)
{
    struct seen seen = {0};
    ck_assert_int_eq(read_back(&seen), HD_OK);
    ck_assert_int_eq(seen.n, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(seen.steps[i], 100 * i);
        ck_assert(seen.walls[i] == 1.25 + i && seen.values[i] == i - 1.5);
    }
}

TEST(a_cut_file_is_read_up_to_its_last_whole_record)
{
    struct seen seen = {0};
    read_back(&seen);
    for (size_t length = 0; length < bytes; length++) {
        seen.n = 0;
        ck_assert_int_eq(truncate(path_of_events, (off_t)(bytes - 1 - length)), 0);
        ck_assert_int_eq(hd_tensorboard_read(path_of_events, see, &seen), HD_OK);
        ck_assert_int_le(seen.n, 2);
    }
    ck_assert_int_eq(errors, 0);
}

TEST(a_flipped_bit_is_found)
{
    struct seen seen = {0};
    read_back(&seen);
    for (size_t flip = 0; flip < bytes; flip++) {
        data[flip] ^= 1;
        FILE *file = fopen(path_of_events, "wb");
        fwrite(data, 1, bytes, file);
        fclose(file);
        data[flip] ^= 1;
        seen.n = 0;
        ck_assert_int_eq(hd_tensorboard_read(path_of_events, see, &seen), HD_ERR_FORMAT);
    }
    ck_assert_int_eq(errors, (int)bytes);
    ck_assert_int_eq(hd_tensorboard_read("/no/such/file", see, &seen), HD_ERR_INPUT);
}

/* No assertion may run under a limit: libcheck writes to a file too. */
static void limit_files(rlim_t max)
{
    const struct rlimit limit = {max, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void append(int first, int end)
{
    for (int i = first; i < end; i++)
        if (hd_tensorboard_add_scalar(board, "tag", i, 1, i) != HD_OK)
            abort();
}

/* Returns the number of scalars in the file, which are in order, and the bytes after them. */
static int count_scalars(size_t *rest_p)
{
    enum { MAX = 120000 };
    static struct scalar scalars[MAX];
    read_events();
    const int n = decode_all(scalars, MAX, rest_p);
    for (int i = 1; i < n; i++)
        ck_assert_int_gt(scalars[i].step, scalars[i - 1].step);
    return n;
}

TEST(a_full_disk_costs_no_scalar_that_was_taken)
{
    enum { N = 300, LIMIT = 3001 };
    size_t rest;
    limit_files(LIMIT);
    append(0, 200);
    hd_tensorboard_flush(board);
    hd_tensorboard_flush(board);
    limit_files(RLIM_INFINITY);
    ck_assert_int_eq(warnings, 1);
    ck_assert_int_lt(count_scalars(&rest), 200);
    ck_assert_uint_eq(bytes, LIMIT);
    ck_assert_uint_gt(rest, 0); /* the limit cuts a record */
    append(200, N);
    hd_tensorboard_flush(board);
    ck_assert_int_eq(warnings, 2); /* that it is written again */
    ck_assert_int_eq(count_scalars(&rest), N);
    ck_assert_uint_eq(rest, 0);
    ck_assert_int_eq(hd_tensorboard_get_length(board), (int64_t)bytes);
    hd_tensorboard_destroy(board);
    ck_assert_int_eq(errors, 0);
}

TEST(what_waits_for_a_full_disk_is_bounded)
{
    enum { N = 120000 };
    size_t rest;
    limit_files(1000);
    append(0, N);
    limit_files(RLIM_INFINITY);
    ck_assert_int_eq(warnings, 1);
    ck_assert_int_le(hd_tensorboard_get_length(board), 1000 + HD_APPEND_WAITING_MAX);
    hd_tensorboard_destroy(board);
    ck_assert_int_eq(warnings, 2);
    ck_assert_ptr_nonnull(strstr(last_line, " records of "));
    const int n = count_scalars(&rest);
    ck_assert_int_gt(n, N / 10);
    ck_assert_int_lt(n, N);
    ck_assert_uint_eq(rest, 0);
}

/* TensorBoard would show the points of both. */
TEST(an_event_file_takes_the_place_of_those_before_it)
{
    struct hd_tensorboard *second = NULL;
    append(0, 100);
    hd_tensorboard_destroy(board);
    ck_assert_int_eq(hd_tensorboard_create(directory, &second), HD_OK);
    hd_tensorboard_destroy(second);
    size_t rest;
    ck_assert_int_eq(count_scalars(&rest), 0);
}

TEST(a_missing_directory_costs_nothing_but_the_file)
{
    struct hd_tensorboard *none = NULL;
    ck_assert_int_eq(hd_tensorboard_create("/proc/no/such/place", &none), HD_OK);
    ck_assert_int_eq(hd_tensorboard_add_scalar(none, "tag", 1, 1, 1), HD_OK);
    hd_tensorboard_destroy(none);
    ck_assert_int_eq(warnings, 2); /* that it cannot be made, and what is lost */
    hd_tensorboard_destroy(NULL);
    hd_tensorboard_destroy(board);
}
