/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fuzz.h"

#include "runtime/base/log.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
const char *__asan_default_options(void);

static char folder[256], last_line[512]; /* of the log */

/* What a user may ask for is more than a fuzzer should be given: no memory is a result like others.
 */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64:quarantine_size_mb=32:"
           "detect_leaks=1:handle_abort=1";
}

static void keep_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *tmp = getenv("TMPDIR");
    if (!tmp)
        tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/heddle-fuzz-XXXXXX", tmp);
    fuzz_check(mkdtemp(folder) != NULL, "a folder can be made");
    atexit(remove_folder);
    hd_log_set_sink(keep_line, NULL);
    return 0;
}

int fuzz_split(const uint8_t *data, size_t bytes, int max, struct fuzz_part *parts)
{
    static const char marker[] = "%%%\n";
    int n = 0;
    while (n < max - 1) {
        const uint8_t *cut = memmem(data, bytes, marker, sizeof marker - 1);
        if (!cut)
            break;
        parts[n++] = (struct fuzz_part){data, (size_t)(cut - data)};
        bytes -= (size_t)(cut - data) + sizeof marker - 1;
        data = cut + sizeof marker - 1;
    }
    parts[n++] = (struct fuzz_part){data, bytes};
    return n;
}

const char *fuzz_path(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void fuzz_write(const char *name, struct fuzz_part content)
{
    int fd = open(fuzz_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && write(fd, content.data, content.bytes) == (ssize_t)content.bytes,
               "a file can be written");
    close(fd);
}

void fuzz_touch(const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        (void)((const volatile uint8_t *)data)[i];
}

void fuzz_check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s; last logged: %s\n", what, last_line);
    abort();
}
