/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the launcher share: launches in a folder of their own, what they wrote, and which
 * processes are left. */
#pragma once

#include "runtime/base/clock.h"
#include "runtime/launch/launch.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

/* How many times its usual need an end is given, since machines are shared; with sanitizers it
 * includes the search for leaks in every process. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PATIENCE = 30 };
#else
enum { PATIENCE = 10 };
#endif

static char folder[] = "/tmp/heddle-launch-XXXXXX";
static char self[4096];      /* this program, where it acts as a rank */
static char output[1 << 16]; /* stderr of the launcher and its ranks */
static int64_t took_ms;
static struct hd_launch_options options;

static inline void setup(void)
{
    ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    options = (struct hd_launch_options){.nproc_per_node = 2, .nnodes = 1, .program = "/bin/sh"};
}

static inline void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static inline void read_file(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s is missing", path);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static inline void await_file(const char *path)
{
    for (int i = 0; i < 5000 && !exists(path); i++)
        usleep(1000);
    ck_assert_msg(exists(path), "%s never came", path);
}

/* Starts a launcher as a process of its own. */
static inline pid_t start(const char *script)
{
    char *shell[] = {"sh", "-c", (char *)script, NULL};
    char *ourselves[] = {self, "rank", (char *)script, NULL};
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int fd = open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    _exit(hd_ranks_launch(&options, options.program == self ? ourselves : shell));
}

static inline int finish(pid_t pid)
{
    int code = ranks_wait(pid);
    read_file("stderr", output, sizeof output);
    return code;
}

static inline int launch(const char *script)
{
    int64_t start_ns = hd_clock_get_ns();
    int code = finish(start(script));
    took_ms = (hd_clock_get_ns() - start_ns) / 1000000;
    return code;
}

static inline int count(const char *part)
{
    int n = 0;
    for (const char *at = output; (at = strstr(at, part)); at++)
        n++;
    return n;
}

#define ASSERT_CODE(expression, code)                                                              \
    do {                                                                                           \
        int code_ = (expression);                                                                  \
        ck_assert_msg(code_ == (code), "exit code %d: %s", code_, output);                         \
    } while (0)
#define ASSERT_SAYS(part) ck_assert_msg(count(part) == 1, "expected once: %s\nin: %s", part, output)

/* Returns whether a process still runs; a zombie that waits for its new parent does not. */
static inline bool runs(pid_t pid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[2] != 'Z' && state[2] != 'X';
}

/* Checks that the processes whose ids are in files pid.* are gone within a second. */
static inline void assert_nobody_left(int expected)
{
    DIR *here = opendir(".");
    int n = 0;
    for (struct dirent *entry; (entry = readdir(here));) {
        char text[32];
        if (strncmp(entry->d_name, "pid.", 4) != 0)
            continue;
        read_file(entry->d_name, text, sizeof text);
        for (int i = 0; i < 1000 && runs(atoi(text)); i++)
            usleep(1000);
        ck_assert_msg(!runs(atoi(text)), "%s: %s still runs", entry->d_name, text);
        n++;
    }
    closedir(here);
    ck_assert_int_eq(n, expected);
}

FIXTURE(setup, teardown)
