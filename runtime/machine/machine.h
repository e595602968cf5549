/* SPDX-License-Identifier: Apache-2.0 */
/* The machine and what it leaves this process: for people to read, nothing computes by it. */
#ifndef HD_RUNTIME_MACHINE_MACHINE_H
#define HD_RUNTIME_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct hd_topology;

enum { HD_MACHINE_TEXT = 128 };

/* What limits this process beside the machine itself. */
struct hd_limits {
    double cpu_quota;     /* cores' worth of time that its cgroups allow; 0: no limit */
    int64_t memory_bytes; /* that its cgroups allow; 0: no limit */
};

struct hd_machine {
    char host[HD_MACHINE_TEXT], kernel[HD_MACHINE_TEXT], cpu[HD_MACHINE_TEXT];
    char governor[HD_MACHINE_TEXT]; /* of the first core's frequency, "" where there is none */
    int packages, numa_nodes;
    int cores, threads;                      /* of the machine */
    int allowed_cores;                       /* that this process may use */
    int64_t memory_bytes, memory_free_bytes; /* free: what the kernel says is available */
    int64_t shm_bytes, shm_free_bytes;       /* of /dev/shm; -1: there is none */
    int64_t open_files, locked_bytes;        /* its ulimits; -1: none */
    struct hd_limits limits;
};

/* Looks at this machine. `topology` is it. */
void hd_machine_read(const struct hd_topology *topology, struct hd_machine *machine_p);

/* The limits of this process's cgroups, of version 1 or 2, and of all above them. `root` NULL: this
 * system's /proc and /sys, else a folder with both, for tests. */
void hd_limits_read(const char *root, struct hd_limits *limits_p);

/* Memory of this process in bytes: now resident, and the most there ever was. 0 where the system
 * does not say. Thread safe. */
void hd_memory_read(int64_t *resident_p, int64_t *peak_p);

enum { HD_VERSIONS_MAX = 16 };

/* A part of this program: "hwloc", "2.9.0"; "not compiled in" where a build leaves it out. */
struct hd_version {
    const char *name;
    char text[HD_MACHINE_TEXT];
};

/* The program, its compiler and the libraries of runtime/; returns how many. Not `ask_gpus`: CUDA
 * is not asked for anything. */
int hd_versions_read(bool ask_gpus, struct hd_version versions_p[HD_VERSIONS_MAX]);

#endif
