/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/machine.h"

#include "runtime/base/alloc.h"
#include "runtime/machine/topology.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { PATH_BYTES = 4352, LINE_BYTES = 4096 };

/* Reads the first line of a file without its newline; returns false when there is none. */
static bool read_first_line(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(line, (int)bytes, file) != NULL;
    if (file)
        fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

/* Reads the text behind "key<blanks or tabs>: " in a file of such lines; "" when it is missing. */
static void read_field(const char *path, const char *key, char *text, size_t bytes)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        const size_t length = strlen(key), colon = strcspn(line, ":");
        if (strncmp(line, key, length) != 0 || strspn(line + length, " \t") != colon - length)
            continue;
        const char *value = line + colon + 1 + strspn(line + colon + 1, " \t");
        snprintf(text, bytes, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file)
        fclose(file);
}

static int64_t read_kib(const char *path, const char *key)
{
    char text[64];
    read_field(path, key, text, sizeof text);
    return strtoll(text, NULL, 10) * 1024;
}

/* -- cgroups ----------------------------------------------------------------------------------- */
/* A group's limit holds for all groups below it, so those of all groups above this process count.
 */

static bool first_line_in(const char *folder, const char *name, char line[64])
{
    char *path = hd_format("%s/%s", folder, name);
    const bool read = path && read_first_line(path, line, 64);
    hd_free(path);
    return read;
}

static double quota_v2(const char *folder)
{
    char line[64];
    double quota, period;
    if (!first_line_in(folder, "cpu.max", line) || sscanf(line, "%lf %lf", &quota, &period) != 2)
        return 0;
    return period > 0 ? quota / period : 0;
}

static double quota_v1(const char *folder)
{
    char quota[64], period[64];
    if (!first_line_in(folder, "cpu.cfs_quota_us", quota) || atof(quota) <= 0)
        return 0;
    return first_line_in(folder, "cpu.cfs_period_us", period) && atof(period) > 0
               ? atof(quota) / atof(period)
               : 0;
}

static double memory_in(const char *folder, const char *file)
{
    enum { NO_LIMIT_BITS = 60 }; /* version 1 means no limit by a huge number */
    char line[64];
    const double bytes = first_line_in(folder, file, line) ? atof(line) : 0; /* "max": 0 */
    return bytes < (double)(INT64_C(1) << NO_LIMIT_BITS) ? bytes : 0;
}

static double memory_v2(const char *folder)
{
    return memory_in(folder, "memory.max");
}

static double memory_v1(const char *folder)
{
    return memory_in(folder, "memory.limit_in_bytes");
}

/* Lowers *lowest_p to the lowest limit of a group and those above it; 0 means no limit. */
static void find_lowest_limit(const char *mount, const char *group,
                              double (*limit)(const char *folder), double *lowest_p)
{
    char folder[PATH_BYTES];
    const size_t base = (size_t)snprintf(folder, sizeof folder, "%s", mount);
    if (base >= sizeof folder - LINE_BYTES)
        return;
    snprintf(folder + base, sizeof folder - base, "%s", strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        const double found = limit(folder);
        if (found > 0 && (*lowest_p == 0 || found < *lowest_p))
            *lowest_p = found;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < base)
            return;
        *slash = '\0';
    }
}

static bool lists_controller(const char *controllers, const char *wanted)
{
    const size_t length = strlen(wanted);
    for (const char *at = controllers; (at = strstr(at, wanted)); at += length)
        if ((at == controllers || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
            return true;
    return false;
}

/* Reads a line "4:memory:/group" of version 1, or "0::/group" of version 2. */
static void read_group(const char *root, char *line, double *quota, double *memory)
{
    char mount[PATH_BYTES / 8];
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : 0;
    if (!group)
        return;
    *controllers++ = *group++ = '\0';
    if (controllers[0] == '\0') {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        find_lowest_limit(mount, group, quota_v2, quota);
        find_lowest_limit(mount, group, memory_v2, memory);
    }
    if (lists_controller(controllers, "cpu")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
        find_lowest_limit(mount, group, quota_v1, quota);
    }
    if (lists_controller(controllers, "memory")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/memory", root);
        find_lowest_limit(mount, group, memory_v1, memory);
    }
}

void hd_limits_read(const char *root, struct hd_limits *limits_p)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    double quota = 0, memory = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root ? root : "");
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        read_group(root ? root : "", line, &quota, &memory);
    }
    if (file)
        fclose(file);
    *limits_p = (struct hd_limits){quota, (int64_t)memory};
}

/* -- The machine ------------------------------------------------------------------------------- */

void hd_memory_read(int64_t *resident_p, int64_t *peak_p)
{
    *resident_p = read_kib("/proc/self/status", "VmRSS");
    *peak_p = read_kib("/proc/self/status", "VmHWM");
}

static int64_t count_tree(const char *process);

/* Returns the resident bytes of all processes below a thread. */
static int64_t count_children(const char *process, const char *thread)
{
    char path[PATH_BYTES], child[24];
    int64_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/children", process, thread);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%23s", child) == 1)
        bytes += count_tree(child);
    if (file)
        fclose(file);
    return bytes;
}

/* Returns those of a process and of all below it. */
static int64_t count_tree(const char *process)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%.20s/status", process);
    int64_t bytes = read_kib(path, "VmRSS");
    snprintf(path, sizeof path, "/proc/%.20s/task", process);
    DIR *threads = opendir(path);
    for (const struct dirent *entry; threads && (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            bytes += count_children(process, entry->d_name);
    if (threads)
        closedir(threads);
    return bytes;
}

int64_t hd_memory_count_with_children(void)
{
    return count_tree("self");
}

static int64_t read_limit(int resource)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return -1;
    return (int64_t)limit.rlim_cur;
}

int64_t hd_memory_count_available(void)
{
    struct hd_limits limits;
    int64_t bytes =
        read_kib("/proc/meminfo", "MemAvailable") + read_kib("/proc/meminfo", "SwapFree");
    const int64_t space = read_limit(RLIMIT_AS);
    hd_limits_read(NULL, &limits);
    if (limits.memory_bytes > 0 && limits.memory_bytes < bytes)
        bytes = limits.memory_bytes;
    return space > 0 && space < bytes ? space : bytes;
}

static void read_shm(struct hd_machine *machine)
{
    struct statvfs about;
    machine->shm_bytes = machine->shm_free_bytes = -1;
    if (statvfs("/dev/shm", &about) != 0)
        return;
    machine->shm_bytes = (int64_t)about.f_blocks * (int64_t)about.f_frsize;
    machine->shm_free_bytes = (int64_t)about.f_bavail * (int64_t)about.f_frsize;
}

void hd_machine_read_cpu(char text[HD_MACHINE_TEXT])
{
    read_field("/proc/cpuinfo", "model name", text, HD_MACHINE_TEXT);
}

void hd_machine_read(const struct hd_topology *topology, struct hd_machine *machine_p)
{
    struct hd_machine machine = {.allowed_cores = hd_topology_count_cores(topology)};
    struct utsname about;
    struct hd_topology_counts counts;
    hd_topology_get_counts(topology, &counts);
    machine.packages = counts.packages;
    machine.numa_nodes = counts.numa_nodes;
    machine.cores = counts.cores;
    machine.threads = counts.threads;
    hd_host_get_name(machine.host);
    if (uname(&about) == 0)
        snprintf(machine.kernel, sizeof machine.kernel, "%.60s %.60s", about.release,
                 about.machine);
    hd_machine_read_cpu(machine.cpu);
    if (!read_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", machine.governor,
                         sizeof machine.governor))
        machine.governor[0] = '\0';
    machine.memory_bytes = read_kib("/proc/meminfo", "MemTotal");
    machine.memory_free_bytes = read_kib("/proc/meminfo", "MemAvailable");
    read_shm(&machine);
    machine.open_files = read_limit(RLIMIT_NOFILE);
    machine.locked_bytes = read_limit(RLIMIT_MEMLOCK);
    hd_limits_read(NULL, &machine.limits);
    *machine_p = machine;
}
