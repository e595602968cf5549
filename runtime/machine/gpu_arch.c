/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/gpu_arch.h"

#include "runtime/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry is a number; then 'a', for this capability alone, or 'f', for its family; then "-real",
 * machine code, or "-virtual", code that drivers compile, or both without a word. */
static bool entry_fits(const char *entry, int capability)
{
    char *rest;
    const int least = (int)strtol(entry, &rest, 10);
    if (rest == entry) /* all, all-major, native */
        return true;
    const char kind = isalpha((unsigned char)*rest) ? *rest++ : '\0';
    const bool compiled_later = strncmp(rest, "-real", strlen("-real")) != 0;
    if (kind == 'a')
        return capability == least;
    if (capability < least)
        return false;
    return capability / 10 == least / 10 || (compiled_later && kind == '\0');
}

bool hd_gpu_arch_fits(const char *architectures, int capability)
{
    for (const char *entry = architectures; entry; entry = strchr(entry, ',')) {
        entry += *entry == ',';
        if (entry_fits(entry, capability))
            return true;
    }
    return false;
}

#if HD_CUDA
bool hd_gpu_arch_check(int device, char text_p[HD_GPU_ARCH_BYTES])
{
    char name[256];
    const int capability = hd_device_get_capability(device);
    if (capability == 0 || hd_gpu_arch_fits(HD_CUDA_ARCHITECTURES, capability))
        return true;
    hd_device_get_name(device, name, sizeof name);
    snprintf(text_p, HD_GPU_ARCH_BYTES,
             "GPU %d (%s) has compute capability %d.%d, and this build has kernels for %s; "
             "configure with -DCMAKE_CUDA_ARCHITECTURES=%d and build again",
             device, name, capability / 10, capability % 10, HD_CUDA_ARCHITECTURES, capability);
    return false;
}
#else
bool hd_gpu_arch_check(int device, char text_p[HD_GPU_ARCH_BYTES])
{
    (void)device, (void)text_p;
    return true;
}
#endif
