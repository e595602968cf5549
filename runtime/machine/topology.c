/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/topology.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/linux.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct hd_topology {
    hwloc_topology_t hwloc;
    hwloc_bitmap_t allowed; /* hardware threads this process may use */
    hwloc_obj_t *cores;     /* with at least one of them, in logical order */
    int n_cores;
    int n_unbound; /* cores that it could use if it were not bound */
};

/* Some machines (and containers) describe hardware threads without cores. */
static hwloc_obj_type_t core_type(hwloc_topology_t hwloc)
{
    return hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

static int count_cores(hwloc_topology_t hwloc, hwloc_const_bitmap_t set, int *first_p)
{
    hwloc_obj_t core = NULL;
    int n = 0;
    while ((core = hwloc_get_next_obj_by_type(hwloc, core_type(hwloc), core)) != NULL)
        if (hwloc_bitmap_intersects(core->cpuset, set) && n++ == 0)
            *first_p = (int)core->logical_index;
    return n;
}

static int load(struct hd_topology *topology, const char *description)
{
    if (hwloc_topology_init(&topology->hwloc) != 0)
        return hd_fail(HD_ERR_SYSTEM, "hwloc cannot start: %s", strerror(errno));
    hwloc_topology_t hwloc = topology->hwloc;
    if (description && hwloc_topology_set_synthetic(hwloc, description) != 0 &&
        hwloc_topology_set_xml(hwloc, description) != 0)
        return hd_fail(HD_ERR_INPUT, "%s is neither a synthetic hwloc topology nor an XML file",
                       description);
    if (hwloc_topology_load(hwloc) != 0)
        return hd_fail(HD_ERR_SYSTEM, "hwloc cannot read the machine's topology: %s",
                       strerror(errno));
    topology->allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(hwloc));
    if (!topology->allowed)
        return hd_fail(HD_ERR_NOMEM, "no memory for a set of cpus");
    int first;
    topology->n_unbound = count_cores(hwloc, topology->allowed, &first);
    /* A binding that taskset, srun or a container gave to this process is kept. */
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    if (bound && hwloc_topology_is_thissystem(hwloc) &&
        hwloc_get_cpubind(hwloc, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(bound, topology->allowed))
        hwloc_bitmap_and(topology->allowed, topology->allowed, bound);
    hwloc_bitmap_free(bound);
    return HD_OK;
}

static int list_cores(struct hd_topology *topology)
{
    hwloc_obj_type_t type = core_type(topology->hwloc);
    int n = hwloc_get_nbobjs_by_type(topology->hwloc, type);
    topology->cores = hd_alloc(n, sizeof(hwloc_obj_t));
    if (!topology->cores)
        return HD_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology->hwloc, type, (unsigned)i);
        if (hwloc_bitmap_intersects(core->cpuset, topology->allowed))
            topology->cores[topology->n_cores++] = core;
    }
    if (topology->n_cores == 0)
        return hd_fail(HD_ERR_SYSTEM, "the machine's topology has no core for this process");
    return HD_OK;
}

int hd_topology_create(const char *description, struct hd_topology **topology_p)
{
    struct hd_topology *topology = hd_alloc(1, sizeof *topology);
    if (!topology)
        return HD_ERR_NOMEM;
    int status = load(topology, description);
    if (status == HD_OK)
        status = list_cores(topology);
    if (status != HD_OK) {
        hd_topology_destroy(topology);
        return status;
    }
    *topology_p = topology;
    return HD_OK;
}

void hd_topology_destroy(struct hd_topology *topology)
{
    if (!topology)
        return;
    hd_free(topology->cores);
    hwloc_bitmap_free(topology->allowed);
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    hd_free(topology);
}

int hd_topology_count_cores(const struct hd_topology *topology)
{
    return topology->n_cores;
}

int hd_cores_count(int *cores_p)
{
    struct hd_topology *topology;
    HD_TRY(hd_topology_create(NULL, &topology));
    *cores_p = hd_topology_count_cores(topology);
    hd_topology_destroy(topology);
    return HD_OK;
}

void hd_topology_get_counts(const struct hd_topology *topology, struct hd_topology_counts *counts_p)
{
    hwloc_topology_t hwloc = topology->hwloc;
    *counts_p = (struct hd_topology_counts){
        .packages = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PACKAGE),
        .numa_nodes = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_NUMANODE),
        .cores = hwloc_get_nbobjs_by_type(hwloc, core_type(hwloc)),
        .threads = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PU),
    };
}

void hd_topology_format_hwloc_version(char text[HD_HWLOC_BYTES])
{
    const unsigned version = hwloc_get_api_version();
    snprintf(text, HD_HWLOC_BYTES, "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
}

bool hd_topology_is_divided(const struct hd_topology *topology, int local_world)
{
    return topology->n_cores < topology->n_unbound &&
           (int64_t)topology->n_cores * local_world <= topology->n_unbound;
}

static int first_core(const struct hd_topology *topology, int local_rank, int local_world)
{
    return (int)((int64_t)topology->n_cores * local_rank / local_world);
}

void hd_topology_assign_cores(const struct hd_topology *topology, int local_rank, int local_world,
                              struct hd_core_share *share_p)
{
    memset(share_p, 0, sizeof *share_p);
    share_p->oversubscribed = topology->n_cores < local_world;
    bool all = share_p->oversubscribed;
    int lo = all ? 0 : first_core(topology, local_rank, local_world);
    int hi = all ? topology->n_cores : first_core(topology, local_rank + 1, local_world);
    for (int i = lo; i < hi && share_p->cores < HD_CORE_SHARE_MAX; i++) {
        const struct hwloc_obj *core = topology->cores[i];
        int cpu = hwloc_bitmap_first(core->cpuset);
        while (!hwloc_bitmap_isset(topology->allowed, (unsigned)cpu))
            cpu = hwloc_bitmap_next(core->cpuset, cpu);
        const struct hwloc_obj *pu = hwloc_get_pu_obj_by_os_index(topology->hwloc, (unsigned)cpu);
        share_p->pus[share_p->cores] = (int)pu->logical_index;
        share_p->cpus[share_p->cores] = cpu;
        share_p->cores++;
    }
}

/* Adds every allowed hardware thread of the share's cores to the set. */
static int add_share(const struct hd_topology *topology, const struct hd_core_share *share,
                     hwloc_bitmap_t set)
{
    for (int i = 0; i < topology->n_cores; i++)
        for (int k = 0; k < share->cores; k++)
            if (hwloc_bitmap_isset(topology->cores[i]->cpuset, (unsigned)share->cpus[k]) &&
                hwloc_bitmap_or(set, set, topology->cores[i]->cpuset) != 0)
                return HD_ERR_NOMEM;
    return hwloc_bitmap_and(set, set, topology->allowed) == 0 ? HD_OK : HD_ERR_NOMEM;
}

int hd_topology_bind(const struct hd_topology *topology, const struct hd_core_share *share)
{
    if (share->oversubscribed)
        return HD_OK;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set || add_share(topology, share, set) != HD_OK) {
        hwloc_bitmap_free(set);
        return hd_fail(HD_ERR_NOMEM, "no memory for a set of cpus");
    }
    int status = HD_OK;
    if (hwloc_set_cpubind(topology->hwloc, set, HWLOC_CPUBIND_PROCESS) != 0)
        status = hd_fail(HD_ERR_SYSTEM, "cannot bind this process to its %d cores: %s",
                         share->cores, strerror(errno));
    hwloc_bitmap_free(set);
    return status;
}

static int find_core(const struct hd_topology *topology, int cpu)
{
    for (int i = 0; i < topology->n_cores; i++)
        if (hwloc_bitmap_isset(topology->cores[i]->cpuset, (unsigned)cpu))
            return (int)topology->cores[i]->logical_index;
    return -1;
}

int hd_topology_take_core(const struct hd_topology *topology, int first_core,
                          struct hd_core_share *share)
{
    int at = share->cores - 1;
    for (int i = share->cores - 1; i >= 0 && first_core >= 0; i--)
        if (find_core(topology, share->cpus[i]) >= first_core)
            at = i;
    const int cpu = share->cpus[at];
    share->cores--;
    for (int i = at; i < share->cores; i++) {
        share->cpus[i] = share->cpus[i + 1];
        share->pus[i] = share->pus[i + 1];
    }
    return cpu;
}

static int first_numa(hwloc_topology_t hwloc, hwloc_const_bitmap_t set)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node)) != NULL)
        if (hwloc_bitmap_intersects(node->cpuset, set))
            return (int)node->logical_index;
    return -1;
}

/* Asks sysfs directly, because hwloc's search for devices starts the libraries of all vendors,
 * CUDA's among them. */
int hd_topology_find_locality(const struct hd_topology *topology, const char *sys,
                              const char *bus_id, struct hd_device_locality *near_p)
{
    char path[512];
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/local_cpus", sys ? sys : "/sys", bus_id);
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int status = HD_ERR_UNSUPPORTED;
    const hwloc_const_bitmap_t all = hwloc_topology_get_complete_cpuset(topology->hwloc);
    if (set && hwloc_linux_read_path_as_cpumask(path, set) == 0 &&
        hwloc_bitmap_and(set, set, all) == 0 && !hwloc_bitmap_iszero(set) &&
        !hwloc_bitmap_isequal(set, all)) {
        struct hd_device_locality locality = {.numa = first_numa(topology->hwloc, set)};
        locality.n_cores = count_cores(topology->hwloc, set, &locality.first_core);
        if (locality.n_cores > 0) {
            *near_p = locality;
            status = HD_OK;
        }
    }
    hwloc_bitmap_free(set);
    return status;
}

void hd_host_get_name(char name_p[HD_HOST_BYTES])
{
    if (gethostname(name_p, HD_HOST_BYTES) != 0)
        memcpy(name_p, "?", 2);
    name_p[HD_HOST_BYTES - 1] = '\0';
}

void hd_host_get_boot_id(char id_p[HD_BOOT_BYTES])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || !fgets(id_p, HD_BOOT_BYTES, file))
        memcpy(id_p, "?", 2);
    if (file)
        fclose(file);
    id_p[strcspn(id_p, "\n")] = '\0';
}

void hd_host_get_isa(char isa_p[HD_ISA_BYTES])
{
    isa_p[0] = '\0';
#if defined(__x86_64__)
    size_t used = 0;
#define HD_ISA_ADD(name)                                                                           \
    if (__builtin_cpu_supports(name))                                                              \
    used += (size_t)snprintf(isa_p + used, HD_ISA_BYTES - used, "%s%s", used > 0 ? " " : "", name)
    HD_ISA_ADD("sse4.2");
    HD_ISA_ADD("avx");
    HD_ISA_ADD("avx2");
    HD_ISA_ADD("fma");
    HD_ISA_ADD("avx512f");
    HD_ISA_ADD("avx512bw");
    HD_ISA_ADD("avx512dq");
    HD_ISA_ADD("avx512vl");
    HD_ISA_ADD("avx512vnni");
    HD_ISA_ADD("avx512bf16");
#undef HD_ISA_ADD
#else
    snprintf(isa_p, HD_ISA_BYTES, "hwcap %lx", getauxval(AT_HWCAP));
#endif
}
