/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/gpu_list.h"

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "runtime/machine/topology.h"

#include <ctype.h>

#if HD_CUDA
#include <cuda_runtime_api.h>

static void identify(int device, struct hd_gpu *gpu)
{
    struct cudaDeviceProp properties = {0};
    if (cudaDeviceGetPCIBusId(gpu->bus_id, HD_BUS_ID_BYTES, device) != cudaSuccess)
        cudaGetLastError(); /* its locality then stays unknown */
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess)
        cudaGetLastError(); /* what it is used for then tells */
    gpu->id = hd_hash_mix(hd_hash_text(gpu->bus_id),
                          hd_hash_bytes(properties.uuid.bytes, sizeof properties.uuid.bytes));
}
#else
static void identify(int device, struct hd_gpu *gpu)
{
    (void)device, (void)gpu;
}
#endif

int hd_gpus_list(const struct hd_topology *topology, struct hd_gpu *gpus_p)
{
    const int n = hd_device_count() < HD_GPUS_MAX ? hd_device_count() : HD_GPUS_MAX;
    for (int i = 0; i < n; i++) {
        struct hd_gpu *gpu = &gpus_p[i];
        struct hd_device_locality locality;
        *gpu = (struct hd_gpu){.core = -1};
        identify(i, gpu);
        for (char *c = gpu->bus_id; *c; c++) /* sysfs writes it in lower case */
            *c = (char)tolower((unsigned char)*c);
        if (topology && hd_topology_find_locality(topology, NULL, gpu->bus_id, &locality) == HD_OK)
            gpu->core = locality.first_core;
    }
    return n;
}
