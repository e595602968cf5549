/* SPDX-License-Identifier: Apache-2.0 */
/* Files that wait for room: what is given up, and what is there in the end. */
#include "runtime/base/log.h"
#include "runtime/io/late_files.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, SPARE = 80 };

static char top[] = "/tmp/heddle-late-XXXXXX", said[1 << 16];
static char data[2 * HD_LATE_FILES_MAX];
static struct hd_late_files late;

static void keep_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)arg;
    (void)level;
    strncat(said, line, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

static void setup(void)
{
    late = (struct hd_late_files){0};
    said[0] = '\0';
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(chdir(top), 0);
    fclose(fopen("folder", "w")); /* in the way of the folder of all files */
    hd_log_set_sink(keep_line, NULL);
}

static void teardown(void)
{
    char command[128];
    hd_log_set_sink(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", top);
    ck_assert_int_eq(system(command), 0);
    strcpy(top + strlen(top) - 6, "XXXXXX");
}

FIXTURE(setup, teardown)

static const char *name(int i)
{
    static char path[64];
    snprintf(path, sizeof path, "folder/spare_%d", i);
    return path;
}

TEST(the_oldest_spare_files_are_given_up)
{
    hd_late_files_put(&late, "folder/best", "old", 3, false);
    for (int i = 0; i < SPARE; i++)
        hd_late_files_put(&late, name(i), data, BYTES, true);
    hd_late_files_put(&late, "folder/best", "best", 4, false);
    ck_assert_int_le(late.bytes, HD_LATE_FILES_MAX);
    unlink("folder");
    hd_late_files_end(&late);
    const int lost = SPARE + 1 - HD_LATE_FILES_MAX / BYTES;
    ck_assert_int_eq(access(name(lost - 1), F_OK), -1);
    ck_assert_int_eq(access(name(lost), F_OK), 0);
    ck_assert_int_eq(access(name(SPARE - 1), F_OK), 0);
    ck_assert_int_eq(access("folder/best", F_OK), 0);
    ck_assert_ptr_nonnull(strstr(said, "folder/spare_0 is given up"));
    ck_assert_ptr_null(strstr(said, "folder/best is given up"));
}

TEST(one_file_may_be_larger)
{
    hd_late_files_put(&late, "folder/spare", "abc", 3, true);
    hd_late_files_put(&late, "folder/best", data, sizeof data, false);
    ck_assert_int_eq(late.n, 1);
    hd_late_files_end(&late);
    ck_assert_ptr_nonnull(strstr(said, "folder/spare is given up"));
    ck_assert_ptr_nonnull(strstr(said, "folder/best cannot be made"));
    ck_assert_ptr_nonnull(strstr(said, "is lost"));
}
