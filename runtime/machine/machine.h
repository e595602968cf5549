/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the machine and what it leaves to this process, for reports and checks; no result
 * depends on it. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hd_topology;

enum { HD_MACHINE_TEXT = 128 };

/* Limits that the cgroups of this process set. */
struct hd_limits {
    double cpu_quota;     /* in cores' worth of time; 0: no limit */
    int64_t memory_bytes; /* 0: no limit */
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

/* Describes this machine, whose topology is `topology`. */
void hd_machine_read(const struct hd_topology *topology, struct hd_machine *machine_p);

/* Reads what the processor calls itself; "" where it does not. */
void hd_machine_read_cpu(char text[HD_MACHINE_TEXT]);

/* Reads the lowest limits of this process's cgroups, of version 1 or 2, and of all above them.
 * `root` is a folder with proc and sys, for tests; NULL means this system's. */
void hd_limits_read(const char *root, struct hd_limits *limits_p);

/* Returns the bytes that the kernel, the cgroups and the limits of this process leave to it; 0
 * where the system does not tell. */
int64_t hd_memory_count_available(void);

/* Reads the resident memory of this process in bytes, now and at its peak; 0 where the system does
 * not tell. */
void hd_memory_read(int64_t *resident_p, int64_t *peak_p);

/* Returns the resident bytes of this process and of all that it and its children have started. */
int64_t hd_memory_count_with_children(void);

enum { HD_VERSIONS_MAX = 16 };

/* A component of this program: "hwloc", "2.9.0"; its text is "not compiled in" where the build
 * lacks it. */
struct hd_version {
    const char *name;
    char text[HD_MACHINE_TEXT];
};

/* Lists the program, its compiler and the libraries of runtime/, and returns their number; it
 * cannot fail. It calls CUDA only when `ask_gpus` is set. */
int hd_versions_read(bool ask_gpus, struct hd_version versions_p[HD_VERSIONS_MAX]);
