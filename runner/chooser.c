/* SPDX-License-Identifier: Apache-2.0 */
/* The program `runner` of an installation for several instruction sets: it becomes the runner of
 * ../lib/heddle/<instruction set>/ for the best that this processor has and that is installed, or,
 * with HD_ISA=NAME, for the best up to this one. It is compiled for any x86-64. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FAILED = 1, BAD_INPUT = 2 };

static bool has_v2(void)
{
    return __builtin_cpu_supports("x86-64-v2");
}

static bool has_v3(void)
{
    return __builtin_cpu_supports("x86-64-v3");
}

static bool has_v4(void)
{
    return __builtin_cpu_supports("x86-64-v4");
}

static bool has_bf16(void)
{
    return has_v4() && __builtin_cpu_supports("avx512bf16");
}

/* Linux grants the tile registers to processes that ask for them. */
static bool has_amx(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return has_bf16() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static const struct {
    const char *name;
    bool (*is_here)(void);
} isas[] = {{"x86-64-v2", has_v2},
            {"x86-64-v3", has_v3},
            {"x86-64-v4", has_v4},
            {"x86-64-v4-bf16", has_bf16},
            {"x86-64-v4-amx", has_amx}};

enum { N_ISAS = sizeof isas / sizeof *isas };

static void refuse(const char *named)
{
    fprintf(stderr, "runner: HD_ISA: expected one of this processor's instruction sets (");
    for (int i = 0, listed = 0; i < N_ISAS; i++)
        if (isas[i].is_here())
            fprintf(stderr, "%s%s", listed++ ? ", " : "", isas[i].name);
    fprintf(stderr, "), found '%s'\n", named);
    exit(BAD_INPUT);
}

/* Returns the index of the best that may be chosen. */
static int find_cap(void)
{
    const char *named = getenv("HD_ISA");
    for (int i = N_ISAS - 1; i >= 0; i--)
        if (named && *named ? strcmp(named, isas[i].name) == 0 : isas[i].is_here()) {
            if (!isas[i].is_here())
                refuse(named);
            return i;
        }
    if (named && *named)
        refuse(named);
    fprintf(stderr, "runner: needs a processor with the instruction set %s\n", isas[0].name);
    exit(FAILED);
}

/* Writes the folder of this program, which is in <prefix>/bin. */
static void find_folder(char folder_p[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", folder_p, PATH_MAX - 1);
    folder_p[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder_p, '/');
    if (!slash) {
        fprintf(stderr, "runner: /proc/self/exe cannot be read: %s\n", strerror(errno));
        exit(FAILED);
    }
    *slash = '\0';
}

int main(int argc, char **argv)
{
    char folder[PATH_MAX], program[PATH_MAX + 64];
    const int cap = find_cap();
    (void)argc;
    find_folder(folder);
    for (int i = cap; i >= 0; i--) {
        snprintf(program, sizeof program, "%s/../lib/heddle/%s/runner", folder, isas[i].name);
        execv(program, argv);
        if (errno == ENOENT)
            continue;
        fprintf(stderr, "runner: %s cannot be run: %s\n", program, strerror(errno));
        return FAILED;
    }
    fprintf(stderr, "runner: there is no program for %s or less in %s/../lib/heddle\n",
            isas[cap].name, folder);
    return FAILED;
}
