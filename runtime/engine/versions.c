/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/comm/nccl/comm_nccl.h"
#include "runtime/device.h"
#include "runtime/engine/session.h"
#include "runtime/machine/gpu_path.h"
#include "runtime/machine/machine.h"
#include "runtime/machine/topology.h"

#include <gnu/libc-version.h>
#include <starpu.h>
#include <stdarg.h>
#include <stdio.h>

struct list {
    struct hd_version *versions;
    int n;
};

__attribute__((format(printf, 3, 4))) static void add(struct list *list, const char *name,
                                                      const char *format, ...)
{
    struct hd_version *version = &list->versions[list->n++];
    va_list args;
    va_start(args, format);
    version->name = name;
    vsnprintf(version->text, sizeof version->text, format, args);
    va_end(args);
}

static void add_starpu(struct list *list)
{
    int major, minor, release;
    starpu_get_version(&major, &minor, &release);
    add(list, "StarPU", "%d.%d.%d, up to %d CPU workers, %s", major, minor, release,
        hd_session_get_workers_max(), hd_session_supports_devices() ? "GPUs" : "no GPUs");
}

static void add_cuda(struct list *list, bool ask)
{
    int runtime, driver;
    if (!HD_CUDA)
        add(list, "CUDA", "not compiled in");
    else if (!ask)
        add(list, "CUDA", "compiled in, not used");
    else if (!hd_device_get_versions(&runtime, &driver))
        add(list, "CUDA", "compiled in, no answer from its runtime");
    else if (driver == 0)
        add(list, "CUDA", "runtime %d.%d, no driver", runtime / 1000, runtime % 1000 / 10);
    else
        add(list, "CUDA", "runtime %d.%d, driver for %d.%d", runtime / 1000, runtime % 1000 / 10,
            driver / 1000, driver % 1000 / 10);
}

static void add_nccl(struct list *list, bool ask)
{
    char text[HD_NCCL_VERSION_BYTES];
    int version;
    if (!HD_CUDA)
        add(list, "NCCL", "not compiled in");
    else if (!ask)
        add(list, "NCCL", "compiled in, not used");
    else if (hd_device_count() == 0)
        add(list, "NCCL", "compiled in, not loaded without a GPU");
    else if (hd_nccl_get_version(&version) != 0)
        add(list, "NCCL", "compiled in, but the library cannot be loaded");
    else {
        hd_nccl_format_version(version, text);
        add(list, "NCCL", "%s", text);
    }
}

int hd_versions_read(bool ask_gpus, struct hd_version versions_p[HD_VERSIONS_MAX])
{
    struct list list = {versions_p, 0};
    char hwloc[HD_HWLOC_BYTES], isa[HD_ISA_BYTES];
    hd_topology_format_hwloc_version(hwloc);
    hd_host_get_isa(isa);
    add(&list, "heddle", "%s", HD_VERSION);
    add(&list, "compiler", "%s %s",
#ifdef __clang__
        "clang",
#else
        "gcc",
#endif
        __VERSION__);
    add(&list, "instruction sets", "%s", isa);
    add(&list, "libc", "%s", gnu_get_libc_version());
    add_starpu(&list);
    add(&list, "hwloc", "%s", hwloc);
    add_cuda(&list, ask_gpus);
    add_nccl(&list, ask_gpus);
    return list.n;
}
