/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/environment.h"

#include "runtime/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name that ends in '*' stands for all names that begin so. */
static const char *const heeded[] = {"STARPU_SCHED", "STARPU_NCPU", "STARPU_PERF_MODEL_DIR",
                                     "STARPU_FXT_*"};
static const char *const cleared[] = {
    "STARPU_*", /* many stop or end a run */
    /* OpenMP's library, which oneDNN brings, binds the main thread to one core as these say, before
     * main: a binding that the process was given looks the same. */
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    /* These describe another machine than this one. */
    "HWLOC_ALLOW",
    "HWLOC_CPUID_PATH",
    "HWLOC_DUMPED_HWDATA_DIR",
    "HWLOC_FSROOT",
    "HWLOC_SYNTHETIC",
    "HWLOC_THISSYSTEM*",
    "HWLOC_XMLFILE",
};

static char names[1024]; /* of the variables that were cleared, with ", " between two of them */

/* Returns whether an entry of the environment, NAME=VALUE, is of a variable in the list. */
static bool is_in(const char *entry, const char *const *list, size_t n)
{
    const size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < n; i++) {
        const size_t stem = strcspn(list[i], "*");
        if (strncmp(entry, list[i], stem) == 0 && (list[i][stem] == '*' || length == stem))
            return true;
    }
    return false;
}

static void note(const char *entry)
{
    const size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%.*s", used > 0 ? ", " : "",
             (int)strcspn(entry, "="), entry);
}

/* Runs before the libraries' own initialisation, which is where OpenMP reads its variables. */
static void clear(int argc, char **argv, char **variables)
{
    char **end = variables;
    (void)argc, (void)argv;
    for (char **at = variables; *at; at++)
        if (is_in(*at, cleared, sizeof cleared / sizeof *cleared) &&
            !is_in(*at, heeded, sizeof heeded / sizeof *heeded))
            note(*at);
        else
            *end++ = *at;
    *end = NULL;
}

__attribute__((section(".preinit_array"), used)) static void (*before_libraries)(int, char **,
                                                                                 char **) = clear;

void hd_environment_report(void)
{
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    const char *rank = NULL;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks && !rank; i++)
        rank = getenv(ranks[i]);
    if (names[0] && (!rank || atoi(rank) == 0))
        hd_log(HD_LOG_WARN,
               "cleared from the environment: %s (docs/configuration.md, section "
               "\"Environment variables\")",
               names);
}
