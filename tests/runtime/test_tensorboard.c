/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: checksums with known answers, the framing of every record. What TensorBoard itself
 * reads is in tests/interop. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/tensorboard.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(crc32c_has_its_known_answers)
{
    const char zeros[32] = {0};
    ck_assert_uint_eq(hd_crc32c("123456789", 9), 0xE3069283u);
    ck_assert_uint_eq(hd_crc32c("", 0), 0);
    ck_assert_uint_eq(hd_crc32c(zeros, sizeof zeros), 0x8A9136AAu); /* RFC 3720, B.4 */
}
END_TEST

static char directory[] = "/tmp/heddle-tb-XXXXXX";

/* The only file of the directory, whole. */
static size_t read_events(unsigned char *data, size_t most)
{
    DIR *list = opendir(directory);
    const struct dirent *entry;
    char path[512] = "";
    while ((entry = readdir(list)))
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0)
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    closedir(list);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(data, 1, most, file);
    fclose(file);
    unlink(path);
    return n;
}

START_TEST(every_record_carries_its_checksums)
{
    enum { SCALARS = 100 };
    static unsigned char data[1 << 16];
    struct hd_tensorboard *board;
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(hd_tensorboard_create(directory, &board), HD_OK);
    for (int i = 0; i < SCALARS; i++)
        ck_assert_int_eq(hd_tensorboard_scalar(board, "learner_iter/loss", i, 1.5, i * 0.25),
                         HD_OK);
    hd_tensorboard_destroy(board);
    size_t bytes = read_events(data, sizeof data), at = 0;
    int records = 0;
    while (at < bytes) {
        uint64_t length;
        uint32_t crc;
        memcpy(&length, data + at, 8);
        memcpy(&crc, data + at + 8, 4);
        ck_assert_uint_eq(crc, hd_crc32c_masked(data + at, 8));
        memcpy(&crc, data + at + 12 + length, 4);
        ck_assert_uint_eq(crc, hd_crc32c_masked(data + at + 12, length));
        if (records == 0)
            ck_assert(memmem(data + at, length + 16, "brain.Event:2", 13) != NULL);
        at += 16 + length;
        records++;
    }
    ck_assert_uint_eq(at, bytes);
    ck_assert_int_eq(records, 1 + SCALARS);
    rmdir(directory);
}
END_TEST

START_TEST(a_missing_directory_is_an_error)
{
    struct hd_tensorboard *board = NULL;
    ck_assert_int_eq(hd_tensorboard_create("/no/such/place", &board), HD_ERR_SYSTEM);
    ck_assert_ptr_null(board);
    hd_tensorboard_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensorboard");
    TCase *tests = tcase_create("events");
    tcase_add_test(tests, crc32c_has_its_known_answers);
    tcase_add_test(tests, every_record_carries_its_checksums);
    tcase_add_test(tests, a_missing_directory_is_an_error);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
