/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/check/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* Returns the resident bytes of a process, "self" or a number. */
static int64_t count_of(const char *process)
{
    char path[64];
    long pages = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%.20s/statm", process);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    fclose(file);
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* Adds the children that a thread of this process has started. */
static int64_t count_children(const char *thread)
{
    char path[64], child[24];
    int64_t bytes = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%23s", child) == 1)
        bytes += count_of(child);
    if (file)
        fclose(file);
    return bytes;
}

int64_t hd_memory_count_resident(void)
{
    int64_t bytes = count_of("self");
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; threads && (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            bytes += count_children(entry->d_name);
    if (threads)
        closedir(threads);
    return bytes;
}
