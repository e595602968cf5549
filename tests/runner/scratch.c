/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runner/scratch.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char scratch_dir[64], scratch_log[4096];

static void listen(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    const size_t used = strlen(scratch_log);
    snprintf(scratch_log + used, sizeof scratch_log - used, "%s\n", line);
}

void scratch_setup(void)
{
    strcpy(scratch_dir, "/tmp/heddle-runner-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch_dir));
    scratch_log[0] = '\0';
    hd_log_set_sink(listen, NULL);
}

void scratch_teardown(void)
{
    char command[128];
    hd_log_set_sink(NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", scratch_dir);
    ck_assert_int_eq(system(command), 0);
}

const char *scratch_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch_dir, name);
    return path;
}

const char *scratch_write(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    ck_assert_int_eq(hd_file_write_atomic(path, text, (int64_t)strlen(text)), HD_OK);
    return path;
}
