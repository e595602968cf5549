/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the emulated runtime. Device memory is memory of the host, full of NaN at first;
 * copies verify what their pointers point to. */
#include "tests/emulation/runtime.hpp"

#include <map>
#include <stdlib.h>
#include <string.h>

using namespace emulation;

namespace
{

enum { PINNED = -1, PAGEABLE = -2, ALIGNMENT = 256 };
const size_t DEVICE_BYTES = (size_t)16 << 30;

struct Region {
    size_t bytes;
    int device; /* or PINNED */
    bool registered;
};

struct Memory {
    std::mutex lock;
    std::map<char *, Region> regions;
    size_t used[MAX_DEVICES] = {};
};

Memory *memory = new Memory;

/* Of what kind the bytes are: a device, PINNED or PAGEABLE. `fits_p`: none lies outside. */
int place(const void *address, size_t bytes, bool *fits_p)
{
    std::lock_guard<std::mutex> held(memory->lock);
    auto after = memory->regions.upper_bound((char *)address);
    *fits_p = true;
    if (after == memory->regions.begin())
        return PAGEABLE;
    auto &[begin, region] = *std::prev(after);
    if ((char *)address >= begin + region.bytes)
        return PAGEABLE;
    *fits_p = (char *)address + bytes <= begin + region.bytes;
    return region.device;
}

/* Whether a copy may go from and to where it wants to; tells whether pageable memory takes part. */
cudaError_t check_copy(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                       bool *pageable_p)
{
    bool to_fits, from_fits;
    const int there = place(to, bytes, &to_fits), here = place(from, bytes, &from_fits);
    *pageable_p = there == PAGEABLE || here == PAGEABLE;
    if (!to_fits || !from_fits)
        return refuse(cudaErrorInvalidValue, "a copy of %zu bytes exceeds its %s", bytes,
                      to_fits ? "source" : "target");
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (to_device != (there >= 0) || from_device != (here >= 0)))
        return refuse(cudaErrorInvalidValue, "a copy's pointers and its direction do not agree");
    return cudaSuccess;
}

cudaError_t insert(void *begin, size_t bytes, int device, bool registered)
{
    std::lock_guard<std::mutex> held(memory->lock);
    memory->regions[(char *)begin] = {bytes, device, registered};
    return cudaSuccess;
}

/* Takes a region out of the table: its bytes, 0 if there is none of this kind. */
bool take(void *begin, bool on_device, bool registered)
{
    std::lock_guard<std::mutex> held(memory->lock);
    auto found = memory->regions.find((char *)begin);
    if (found == memory->regions.end() || (found->second.device >= 0) != on_device ||
        found->second.registered != registered)
        return false;
    if (on_device)
        memory->used[found->second.device] -= found->second.bytes;
    memory->regions.erase(found);
    return true;
}

void *new_bytes(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

} // namespace

/* -- Allocation -------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **begin_p, size_t bytes)
{
    count_synchronous();
    cudaError_t error = usable();
    if (error == cudaSuccess)
        error = outside_captures("cudaMalloc");
    if (error != cudaSuccess)
        return result(error);
    *begin_p = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    {
        std::lock_guard<std::mutex> held(memory->lock);
        if (memory->used[device()] + bytes > DEVICE_BYTES)
            return result(cudaErrorMemoryAllocation);
        memory->used[device()] += bytes;
    }
    /* Not rounded up, that AddressSanitizer sees where it ends. */
    if (posix_memalign(begin_p, ALIGNMENT, bytes) != 0)
        return result(cudaErrorMemoryAllocation);
    memset(*begin_p, 0xFF, bytes);
    return insert(*begin_p, bytes, device(), false);
}

cudaError_t cudaFree(void *begin)
{
    count_synchronous();
    if (!begin)
        return result(usable());
    cudaError_t error = outside_captures("cudaFree");
    if (error != cudaSuccess)
        return result(error);
    wait_for_device(-1);
    if (!take(begin, true, false))
        return result(refuse(cudaErrorInvalidValue, "cudaFree of what is no device memory"));
    free(begin);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **begin_p, size_t bytes, unsigned)
{
    count_synchronous();
    cudaError_t error = usable();
    if (error == cudaSuccess)
        error = outside_captures("cudaHostAlloc");
    if (error != cudaSuccess)
        return result(error);
    *begin_p = bytes ? new_bytes(bytes) : nullptr;
    return bytes ? insert(*begin_p, bytes, PINNED, false) : cudaSuccess;
}

cudaError_t cudaMallocHost(void **begin_p, size_t bytes)
{
    return cudaHostAlloc(begin_p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *begin)
{
    count_synchronous();
    if (!begin)
        return cudaSuccess;
    cudaError_t error = outside_captures("cudaFreeHost");
    if (error != cudaSuccess)
        return result(error);
    wait_for_device(-1);
    if (!take(begin, false, false))
        return result(refuse(cudaErrorInvalidValue, "cudaFreeHost of what was not allocated"));
    free(begin);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *begin, size_t bytes, unsigned)
{
    count_synchronous();
    bool fits;
    if (usable() != cudaSuccess)
        return result(usable());
    if (place(begin, bytes, &fits) != PAGEABLE)
        return result(cudaErrorHostMemoryAlreadyRegistered);
    return insert(begin, bytes, PINNED, true);
}

cudaError_t cudaHostUnregister(void *begin)
{
    count_synchronous();
    wait_for_device(-1);
    return take(begin, false, true) ? cudaSuccess : result(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **device_p, void *host, unsigned)
{
    bool fits;
    if (place(host, 1, &fits) != PINNED)
        return result(refuse(cudaErrorInvalidValue, "the memory is not pinned"));
    *device_p = host;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_p, size_t *total_p)
{
    std::lock_guard<std::mutex> held(memory->lock);
    *total_p = DEVICE_BYTES;
    *free_p = DEVICE_BYTES - memory->used[device()];
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *address)
{
    bool fits;
    const int where = place(address, 1, &fits);
    *attributes = {};
    attributes->device = where >= 0 ? where : device();
    attributes->type = where >= 0        ? cudaMemoryTypeDevice
                       : where == PINNED ? cudaMemoryTypeHost
                                         : cudaMemoryTypeUnregistered;
    attributes->devicePointer = where == PAGEABLE ? nullptr : (void *)address;
    attributes->hostPointer = where >= 0 ? nullptr : (void *)address;
    return cudaSuccess;
}

/* -- Copies ------------------------------------------------------------------------------------ */

/* On a GPU too a copy from or to pageable memory makes the caller wait. */
static cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                        cudaStream_t stream, bool synchronous)
{
    bool pageable;
    cudaError_t error = usable();
    if (error == cudaSuccess)
        error = check_copy(to, from, bytes, kind, &pageable);
    if (error == cudaSuccess)
        error = enqueue(stream, [=] { memmove(to, from, bytes); });
    if (error != cudaSuccess)
        return result(error);
    if (pageable && !synchronous)
        count_pageable();
    if (pageable || synchronous) {
        count_synchronous();
        wait_for_stream(stream);
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    cudaError_t error = outside_captures("cudaMemcpy");
    if (error != cudaSuccess)
        return result(error);
    wait_for_blocking_streams(device());
    return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    bool fits;
    const int where = place(to, bytes, &fits);
    if (where == PAGEABLE || !fits)
        return result(refuse(cudaErrorInvalidValue, "cudaMemset beyond a device's memory"));
    return result(enqueue(stream, [=] { memset(to, value, bytes); }));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    count_synchronous();
    wait_for_blocking_streams(device());
    cudaError_t error = cudaMemsetAsync(to, value, bytes, nullptr);
    if (error == cudaSuccess)
        wait_for_stream(nullptr);
    return error;
}
