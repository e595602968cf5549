/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks share no core while there are enough, on machines that one line describes. Also tests the
 * names of the host and the fingerprint. */
#include "runtime/base/status.h"
#include "runtime/machine/topology.h"
#include "runtime/ranks/fingerprint.h"
#include "tests/harness/check.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const machines[] = {"core:1 pu:1",
                                       "core:2 pu:1",
                                       "core:4 pu:2",
                                       "numa:2 core:3 pu:2",
                                       "pu:6",
                                       "core:7 pu:1",
                                       "pack:2 numa:4 core:8 pu:2"};
static const int n_cores[] = {1, 2, 4, 6, 6, 7, 64};
enum { N_MACHINES = sizeof machines / sizeof *machines, MAX_CPUS = 256 };

TEST(no_core_is_shared)
{
    for (int m = 0; m < N_MACHINES; m++) {
        struct hd_topology *topology;
        ck_assert_int_eq(hd_topology_create(machines[m], &topology), HD_OK);
        ck_assert_int_eq(hd_topology_count_cores(topology), n_cores[m]);
        for (int ranks = 1; ranks <= n_cores[m]; ranks++) {
            int taken[MAX_CPUS] = {0}, total = 0, last = -1;
            for (int r = 0; r < ranks; r++) {
                struct hd_core_share share;
                hd_topology_assign_cores(topology, r, ranks, &share);
                ck_assert(!share.oversubscribed);
                ck_assert_int_ge(share.cores, n_cores[m] / ranks);
                ck_assert_int_le(share.cores, n_cores[m] / ranks + 1);
                for (int i = 0; i < share.cores; i++) {
                    ck_assert_int_eq(taken[share.cpus[i]]++, 0);
                    ck_assert_int_gt(share.pus[i], last);
                    last = share.pus[i];
                }
                total += share.cores;
            }
            ck_assert_int_eq(total, n_cores[m]);
        }
        hd_topology_destroy(topology);
    }
}

/* The second hardware thread of a core must not count as a core of its own. */
TEST(hardware_threads_are_not_cores)
{
    struct hd_topology *topology;
    struct hd_core_share share;
    ck_assert_int_eq(hd_topology_create("core:2 pu:2", &topology), HD_OK);
    hd_topology_assign_cores(topology, 1, 2, &share);
    ck_assert_int_eq(share.cores, 1);
    ck_assert_int_eq(share.pus[0], 2);
    hd_topology_destroy(topology);
}

static int take(const struct hd_topology *topology, int first_core, struct hd_core_share *share)
{
    const int before = share->cores, cpu = hd_topology_take_core(topology, first_core, share);
    ck_assert_int_eq(share->cores, before - 1);
    for (int i = 0; i < share->cores; i++) {
        ck_assert_int_ne(share->cpus[i], cpu);
        ck_assert(i == 0 || share->cpus[i] > share->cpus[i - 1]);
    }
    return cpu;
}

/* Rank 1 of 2 has cores 4 to 7, whose first hardware threads are 8, 10, 12 and 14. */
TEST(a_core_is_taken_near_a_device)
{
    struct hd_topology *topology;
    struct hd_core_share share;
    ck_assert_int_eq(hd_topology_create("numa:2 core:4 pu:2", &topology), HD_OK);
    hd_topology_assign_cores(topology, 1, 2, &share);
    ck_assert_int_eq(take(topology, 5, &share), 10);
    ck_assert_int_eq(take(topology, 5, &share), 12);
    ck_assert_int_eq(take(topology, -1, &share), 14);
    hd_topology_assign_cores(topology, 1, 2, &share);
    ck_assert_int_eq(take(topology, 0, &share), 8);
    ck_assert_int_eq(take(topology, 8, &share), 14);
    hd_topology_destroy(topology);
}

TEST(too_many_ranks_share_all)
{
    struct hd_topology *topology;
    ck_assert_int_eq(hd_topology_create("core:2 pu:2", &topology), HD_OK);
    for (int r = 0; r < 3; r++) {
        struct hd_core_share share;
        hd_topology_assign_cores(topology, r, 3, &share);
        ck_assert(share.oversubscribed);
        ck_assert_int_eq(share.cores, 2);
        ck_assert_int_eq(hd_topology_bind(topology, &share), HD_OK);
    }
    hd_topology_destroy(topology);
}

TEST(bad_descriptions)
{
    struct hd_topology *topology;
    ck_assert_int_eq(hd_topology_create("no such file", &topology), HD_ERR_INPUT);
    ck_assert_int_eq(hd_topology_create("", &topology), HD_ERR_INPUT);
    hd_topology_destroy(NULL);
}

/* On this machine: after binding to the share, a second topology has only its cores. */
TEST(binding_holds)
{
    struct hd_topology *topology, *again;
    struct hd_core_share share;
    cpu_set_t set;
    ck_assert_int_eq(hd_topology_create(NULL, &topology), HD_OK);
    int cores = hd_topology_count_cores(topology);
    ck_assert_int_ge(cores, 1);
    hd_topology_assign_cores(topology, cores - 1, cores, &share);
    ck_assert_int_eq(share.cores, 1);
    ck_assert_int_eq(hd_topology_bind(topology, &share), HD_OK);
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    ck_assert(CPU_ISSET((size_t)share.cpus[0], &set));
    ck_assert_int_eq(hd_topology_create(NULL, &again), HD_OK);
    ck_assert_int_eq(hd_topology_count_cores(again), 1);
    hd_topology_assign_cores(again, 0, 1, &share);
    ck_assert(CPU_ISSET((size_t)share.cpus[0], &set));
    hd_topology_destroy(again);
    hd_topology_destroy(topology);
}

/* Writes a device's file in a folder in place of /sys. */
static void describe_device(const char *sys, const char *bus_id, const char *cpus)
{
    char path[512];
    snprintf(path, sizeof path, "mkdir -p %s/bus/pci/devices/%s", sys, bus_id);
    ck_assert_int_eq(system(path), 0);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/local_cpus", sys, bus_id);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "%s\n", cpus);
    fclose(file);
}

TEST(devices_are_near_some_cores)
{
    char sys[] = "/tmp/hd-near-XXXXXX", remove[64];
    struct hd_topology *topology;
    struct hd_device_locality locality = {.first_core = 77};
    ck_assert_ptr_nonnull(mkdtemp(sys));
    describe_device(sys, "0000:3b:00.0", "000000f0");
    describe_device(sys, "0000:86:00.0", "ff");
    describe_device(sys, "0000:87:00.0", "0");
    ck_assert_int_eq(hd_topology_create("numa:2 core:2 pu:2", &topology), HD_OK);
    ck_assert_int_eq(hd_topology_find_locality(topology, sys, "0000:86:00.0", &locality),
                     HD_ERR_UNSUPPORTED);
    ck_assert_int_eq(hd_topology_find_locality(topology, sys, "0000:87:00.0", &locality),
                     HD_ERR_UNSUPPORTED);
    ck_assert_int_eq(hd_topology_find_locality(topology, sys, "0000:99:00.0", &locality),
                     HD_ERR_UNSUPPORTED);
    ck_assert_int_eq(hd_topology_find_locality(topology, NULL, "none", &locality),
                     HD_ERR_UNSUPPORTED);
    ck_assert_int_eq(locality.first_core, 77);
    ck_assert_int_eq(hd_topology_find_locality(topology, sys, "0000:3b:00.0", &locality), HD_OK);
    ck_assert(locality.first_core == 2 && locality.n_cores == 2 && locality.numa == 1);
    hd_topology_destroy(topology);
    snprintf(remove, sizeof remove, "rm -r %s", sys);
    ck_assert_int_eq(system(remove), 0);
}

TEST(the_host_names_itself)
{
    char name[HD_HOST_BYTES], boot[HD_BOOT_BYTES], isa[HD_ISA_BYTES];
    hd_host_get_name(name);
    hd_host_get_boot_id(boot);
    hd_host_get_isa(isa);
    ck_assert_uint_gt(strlen(name), 0);
    ck_assert_uint_eq(strlen(boot), 36);
    ck_assert_uint_gt(strlen(isa), 0);
    ck_assert_ptr_null(strchr(boot, '\n'));
}

TEST(fingerprint_changes_with_its_parts)
{
    struct hd_fingerprint one, two;
    char text[256], *huge = calloc(1, 2000);
    ck_assert_int_eq(hd_fingerprint_create("x86-64-v3", "onednn 2.7", "f32", &one), HD_OK);
    ck_assert_int_eq(hd_fingerprint_create("x86-64-v3", "onednn 2.7", "f32", &two), HD_OK);
    ck_assert_str_eq(one.text, two.text);
    ck_assert_uint_eq(one.hash, two.hash);
    hd_fingerprint_diff(one.text, two.text, text, sizeof text);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(hd_fingerprint_create("x86-64-v3", "onednn 2.7", "bf16", &two), HD_OK);
    ck_assert_uint_ne(one.hash, two.hash);
    hd_fingerprint_diff(one.text, two.text, text, sizeof text);
    ck_assert_str_eq(text, "precision: f32 against bf16");
    memset(huge, 'x', 1999);
    ck_assert_int_eq(hd_fingerprint_create("x86-64-v3", huge, "f32", &two), HD_ERR_INPUT);
    free(huge);
}

TEST(differences_of_any_text)
{
    char text[64], tiny[8];
    hd_fingerprint_diff("a=1; b=2", "b=2; a=3", text, sizeof text);
    ck_assert_str_eq(text, "a: 1 against 3");
    hd_fingerprint_diff("a=1; c=4", "a=1", text, sizeof text);
    ck_assert_str_eq(text, "c: 4 against nothing");
    hd_fingerprint_diff("a=1", "a=1; c=4", text, sizeof text);
    ck_assert_str_eq(text, "a=1 against a=1; c=4");
    hd_fingerprint_diff(";;=;x", "y", text, sizeof text);
    ck_assert_uint_gt(strlen(text), 0);
    hd_fingerprint_diff("no key", "no key", text, sizeof text);
    ck_assert_str_eq(text, "");
    hd_fingerprint_diff("", "", text, sizeof text);
    ck_assert_str_eq(text, "");
    hd_fingerprint_diff("a=1", "a=2", tiny, sizeof tiny);
    ck_assert_str_eq(tiny, "a: 1 ag");
}

/* Binds all threads of this process, as mpirun binds it: the thread sanitizer adds one. */
static void bind_process(const cpu_set_t *cpus)
{
    DIR *threads = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(threads);
    for (const struct dirent *at; (at = readdir(threads)) != NULL;)
        if (at->d_name[0] != '.')
            ck_assert_int_eq(sched_setaffinity(atoi(at->d_name), sizeof *cpus, cpus), 0);
    closedir(threads);
}

/* When mpirun has bound each of a few ranks to one core, each has a core of its own. */
TEST(a_bound_rank_keeps_its_cores)
{
    struct hd_topology *all, *one;
    cpu_set_t before, first;
    ck_assert_int_eq(hd_topology_create(NULL, &all), HD_OK);
    const int cores = hd_topology_count_cores(all);
    struct hd_core_share share;
    hd_topology_assign_cores(all, 0, 1, &share);
    ck_assert(!hd_topology_is_divided(all, 1));
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&first);
    CPU_SET(share.cpus[0], &first);
    bind_process(&first);
    ck_assert_int_eq(hd_topology_create(NULL, &one), HD_OK);
    ck_assert(hd_topology_is_divided(one, cores) == (cores > 1));
    ck_assert(!hd_topology_is_divided(one, 1000000));
    bind_process(&before);
    hd_topology_destroy(one);
    hd_topology_destroy(all);
}
