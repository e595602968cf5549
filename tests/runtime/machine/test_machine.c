/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a process are read from the files of both versions of cgroups; this machine is
 * described. */
#include "runtime/machine/machine.h"
#include "runtime/machine/topology.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];

static void setup(void)
{
    strcpy(root, "/tmp/heddle-cgroup-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s%s)\" && printf '%s' >%s%s", root,
             path, text, root, path);
    ck_assert_int_eq(system(command), 0);
}

FIXTURE(setup, teardown)

TEST(the_smallest_limit_on_the_way_up_counts)
{
    struct hd_limits limits;
    put("/proc/self/cgroup", "0::/outer/inner\n");
    put("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/outer/inner/memory.max", "3000000\n");
    put("/sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/outer/memory.max", "5000000\n");
    hd_limits_read(root, &limits);
    ck_assert(limits.cpu_quota == 1.5);
    ck_assert_int_eq(limits.memory_bytes, 3000000);
}

TEST(version_1_has_its_own_files)
{
    struct hd_limits limits;
    put("/proc/self/cgroup", "12:cpu,cpuacct:/job\n7:memory:/\n3:cpuset:/job\n0::/\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    hd_limits_read(root, &limits);
    ck_assert(limits.cpu_quota == 0.5);
    ck_assert_int_eq(limits.memory_bytes, 0);
}

TEST(without_groups_nothing_is_limited)
{
    struct hd_limits limits = {1, 1};
    hd_limits_read(root, &limits);
    ck_assert(limits.cpu_quota == 0 && limits.memory_bytes == 0);
    put("/proc/self/cgroup", "no colons\n0:\n0::/gone\n");
    hd_limits_read(root, &limits);
    ck_assert(limits.cpu_quota == 0 && limits.memory_bytes == 0);
}

TEST(this_machine_has_what_every_machine_has)
{
    struct hd_topology *topology;
    struct hd_machine machine;
    struct hd_version versions[HD_VERSIONS_MAX];
    int64_t resident, peak;
    ck_assert_int_eq(hd_topology_create(NULL, &topology), 0);
    hd_machine_read(topology, &machine);
    ck_assert_int_eq(machine.allowed_cores, hd_topology_count_cores(topology));
    hd_topology_destroy(topology);
    ck_assert_int_ge(machine.cores, machine.allowed_cores);
    ck_assert_int_ge(machine.threads, machine.cores);
    ck_assert_int_ge(machine.packages, 1);
    ck_assert_int_gt(machine.memory_bytes, machine.memory_free_bytes);
    ck_assert_uint_gt(strlen(machine.host), 0);
    hd_memory_read(&resident, &peak);
    ck_assert_int_gt(resident, 1 << 16);
    ck_assert_int_ge(peak, resident / 2);
    ck_assert_int_lt(peak, machine.memory_bytes);
    const int n = hd_versions_read(false, versions);
    ck_assert_int_ge(n, 8);
    ck_assert_int_le(n, HD_VERSIONS_MAX);
    for (int i = 0; i < n; i++)
        ck_assert_uint_gt(strlen(versions[i].text), 0);
}

TEST(a_described_machine_is_counted)
{
    struct hd_topology *topology;
    struct hd_topology_counts counts;
    ck_assert_int_eq(hd_topology_create("pack:2 numa:2 core:4 pu:2", &topology), 0);
    hd_topology_get_counts(topology, &counts);
    hd_topology_destroy(topology);
    ck_assert(counts.packages == 2 && counts.numa_nodes == 4);
    ck_assert(counts.cores == 16 && counts.threads == 32);
}
