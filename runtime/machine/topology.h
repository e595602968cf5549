/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the cores of the machine, gives each rank its share and binds it, and reads the names by
 * which ranks recognise hosts. Several threads may read a topology. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HD_CORE_SHARE_MAX = 1024, /* most cores of a rank */
    HD_HOST_BYTES = 64,       /* a host name, cut to this, with its zero */
    HD_BOOT_BYTES = 40,       /* a boot id with its zero */
    HD_ISA_BYTES = 128,
    HD_HWLOC_BYTES = 24
};

struct hd_topology;

/* The cores of one rank. */
struct hd_core_share {
    int cores;                   /* distinct cores this rank may compute on, >= 1 */
    bool oversubscribed;         /* more ranks than cores: all ranks may use all cores, unbound */
    int pus[HD_CORE_SHARE_MAX];  /* first hardware thread of each core: hwloc's logical index */
    int cpus[HD_CORE_SHARE_MAX]; /* and the system's number of it */
};

/* Finds the cores that this process may use by its affinity and cgroup. `description` is an hwloc
 * XML file or a synthetic description ("core:4 pu:2"), for tests; NULL means this machine. Returns
 * HD_OK, HD_ERR_SYSTEM, HD_ERR_INPUT for an invalid description, or HD_ERR_NOMEM (all logged).
 * hd_topology_destroy (accepts NULL) releases it. */
int hd_topology_create(const char *description, struct hd_topology **topology_p);
void hd_topology_destroy(struct hd_topology *topology);

/* Returns the number of cores that this process may use; it cannot fail. */
int hd_topology_count_cores(const struct hd_topology *topology);

/* Counts the cores that this process may use, for callers that need no more. Returns HD_OK,
 * HD_ERR_SYSTEM or HD_ERR_NOMEM (both logged). */
int hd_cores_count(int *cores_p);

/* Counts of the whole machine, whether this process may use its parts or not. */
struct hd_topology_counts {
    int packages, numa_nodes, cores, threads;
};
void hd_topology_get_counts(const struct hd_topology *topology,
                            struct hd_topology_counts *counts_p);

/* Formats the version of hwloc that is loaded: "2.9.0". */
void hd_topology_format_hwloc_version(char text[HD_HWLOC_BYTES]);

/* Returns whether this process is bound to so few of the cores of its cgroup that each of
 * local_world ranks can have as many to itself: then mpirun or srun has divided them already. */
bool hd_topology_is_divided(const struct hd_topology *topology, int local_world);

/* Stores the contiguous block of cores of local rank `local_rank` of `local_world`. Blocks are
 * disjoint when there are enough cores, and differ in size by at most one core. */
void hd_topology_assign_cores(const struct hd_topology *topology, int local_rank, int local_world,
                              struct hd_core_share *share_p);

/* Binds this process, with all present and future threads that do not bind themselves, to the
 * hardware threads of its share; does nothing when oversubscribed. Call it before other threads
 * exist. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (both logged). */
int hd_topology_bind(const struct hd_topology *topology, const struct hd_core_share *share);

/* Takes a core out of a share of several, for a thread that keeps it busy: the first from
 * `first_core` on (hwloc's logical index; -1: anywhere), or the last. Returns the system's number
 * of its first hardware thread; it cannot fail. */
int hd_topology_take_core(const struct hd_topology *topology, int first_core,
                          struct hd_core_share *share);

/* The cores and the NUMA node next to a device. */
struct hd_device_locality {
    int first_core; /* hwloc's logical index among all cores of the machine */
    int n_cores;
    int numa; /* logical index of the first NUMA node, -1 if there is none */
};

/* Finds the cores next to the PCI device `bus_id` ("0000:3b:00.0", lower case), whether this
 * process may use them or not. `sys` is a folder in place of /sys, for tests; NULL means /sys.
 * Returns HD_OK, or HD_ERR_UNSUPPORTED (not logged) when the system does not tell, or all cores are
 * equally near. */
int hd_topology_find_locality(const struct hd_topology *topology, const char *sys,
                              const char *bus_id, struct hd_device_locality *near_p);

/* Reads the name of this host; "?" when unknown. Thread safe. */
void hd_host_get_name(char name_p[HD_HOST_BYTES]);

/* Reads the kernel's boot id, which only processes of one running kernel share, also across
 * containers; "?" when unknown. Thread safe. */
void hd_host_get_boot_id(char id_p[HD_BOOT_BYTES]);

/* Lists the instruction sets that code chosen at run time may use, best last: "avx2 fma avx512f".
 * Thread safe. */
void hd_host_get_isa(char isa_p[HD_ISA_BYTES]);
