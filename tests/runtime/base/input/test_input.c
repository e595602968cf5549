/* SPDX-License-Identifier: Apache-2.0 */
/* Files from outside: what is opened, and what is refused at once. */
#include "runtime/base/input/input.h"
#include "tests/harness/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How each kind of entry is answered: errno, by enum hd_input. */
static const struct {
    const char *name, *says;
    int error[3];
} entries[] = {
    {"file", "", {0, 0, 0}},
    {"link", "symbolic link, which is not followed", {ELOOP, 0, 0}},
    {"folder", "is a directory", {EISDIR, EISDIR, EISDIR}},
    {"absent", "No such file", {ENOENT, ENOENT, ENOENT}},
    {"pipe", "is a pipe", {EINVAL, EINVAL, -1}}, /* a config waits for whoever writes it */
    {"to_pipe", "", {ELOOP, EINVAL, -1}},
    {"/dev/zero", "is a device", {EINVAL, EINVAL, 0}},
};

static char top[] = "/tmp/heddle-input-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(chdir(top), 0);
    ck_assert_int_eq(fclose(fopen("file", "w")), 0);
    ck_assert_int_eq(mkdir("folder", 0700) | mkfifo("pipe", 0600), 0);
    ck_assert_int_eq(symlink("file", "link") | symlink("pipe", "to_pipe"), 0);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", top);
    ck_assert_int_eq(system(command), 0);
    strcpy(top + strlen(top) - 6, "XXXXXX");
}

FIXTURE(setup, teardown)

TEST(only_files_are_opened, .runs = COUNT(entries))
{
    for (int from = 0; from < 3; from++) {
        char why[HD_INPUT_WHY] = "";
        const int wanted = entries[_i].error[from];
        if (wanted < 0)
            continue;
        const bool opened = hd_input_check(entries[_i].name, from, why);
        ck_assert_msg(opened == (wanted == 0), "%s from %d: %s", entries[_i].name, from, why);
        ck_assert_msg(opened || errno == wanted, "%s from %d: %m", entries[_i].name, from);
        ck_assert_msg(opened || strstr(why, entries[_i].says), "%s: %s", entries[_i].name, why);
    }
}
