/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/gpu_list.h"

#include "runtime/base/status.h"
#include "runtime/device.h"
#include "runtime/machine/topology.h"

#include <ctype.h>

#if HD_CUDA
#include <cuda_runtime_api.h>

static void find_bus_id(int device, char *text)
{
    if (cudaDeviceGetPCIBusId(text, HD_BUS_ID_BYTES, device) != cudaSuccess)
        cudaGetLastError(); /* its locality then stays unknown */
}
#else
static void find_bus_id(int device, char *text)
{
    (void)device;
    text[0] = '\0';
}
#endif

int hd_gpus_list(const struct hd_topology *topology, struct hd_gpu *gpus_p)
{
    const int n = hd_device_count() < HD_GPUS_MAX ? hd_device_count() : HD_GPUS_MAX;
    for (int i = 0; i < n; i++) {
        struct hd_gpu *gpu = &gpus_p[i];
        struct hd_device_locality locality;
        *gpu = (struct hd_gpu){.core = -1};
        find_bus_id(i, gpu->bus_id);
        for (char *c = gpu->bus_id; *c; c++) /* sysfs writes it in lower case */
            *c = (char)tolower((unsigned char)*c);
        if (topology && hd_topology_find_locality(topology, NULL, gpu->bus_id, &locality) == HD_OK)
            gpu->core = locality.first_core;
    }
    return n;
}
