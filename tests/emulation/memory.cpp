/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the emulated runtime. Device memory is memory of the host, full of NaN at first. It has
 * pages of its own, and a page that nobody may address follows it. Where the processor can protect
 * pages by keys, only the thread that serves the streams can address it (a program that
 * dereferences a device pointer gets a SIGSEGV). Under AddressSanitizer it comes from the heap,
 * which knows its bounds to the byte. */
#include "tests/emulation/runtime.hpp"

#include <map>
#include <mutex>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace emulation;

namespace
{

enum { ALIGNMENT = 256 };
const size_t DEVICE_BYTES = (size_t)16 << 30;

struct Region {
    size_t bytes;
    int device; /* or PINNED */
    bool registered;
    void *mapped = nullptr; /* where its pages begin; NULL: it is from the heap, or another's */
    size_t mapped_bytes = 0;
};

struct Memory {
    std::mutex lock;
    std::map<char *, Region> regions;
    size_t used[MAX_DEVICES] = {};
};

Memory *const memory = new Memory;

size_t rounded_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

#ifdef __SANITIZE_ADDRESS__
char *new_device_memory(size_t bytes, Region &)
{
    void *begin;
    if (posix_memalign(&begin, ALIGNMENT, bytes) != 0)
        return nullptr;
    memset(begin, 0xFF, bytes);
    return (char *)begin;
}
#else
int protection_key() /* or -1 */
{
    static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    return key;
}

/* Pages that end where the memory does, but for its alignment. */
char *new_device_memory(size_t bytes, Region &region)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = rounded_up(bytes, ALIGNMENT);
    const size_t inside = rounded_up(used, page);
    region.mapped_bytes = inside + page;
    region.mapped = mmap(nullptr, region.mapped_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region.mapped == MAP_FAILED)
        return nullptr;
    char *begin = (char *)region.mapped + inside - used;
    memset(begin, 0xFF, bytes);
    mprotect((char *)region.mapped + inside, page, PROT_NONE);
    if (protection_key() >= 0)
        pkey_mprotect(region.mapped, inside, PROT_READ | PROT_WRITE, protection_key());
    return begin;
}
#endif

void release(char *begin, const Region &region)
{
    if (region.mapped)
        munmap(region.mapped, region.mapped_bytes);
    else if (!region.registered)
        free(begin);
}

void insert(void *begin, const Region &region)
{
    std::lock_guard<std::mutex> held(memory->lock);
    memory->regions[(char *)begin] = region;
}

/* Takes a region of this kind out of the table; false: there is none. */
bool take(void *begin, bool on_device, bool registered, Region &region)
{
    std::lock_guard<std::mutex> held(memory->lock);
    auto found = memory->regions.find((char *)begin);
    if (found == memory->regions.end() || (found->second.device >= 0) != on_device ||
        found->second.registered != registered)
        return false;
    region = found->second;
    if (on_device)
        memory->used[region.device] -= region.bytes;
    memory->regions.erase(found);
    return true;
}

/* Frees after all that devices have to do. */
cudaError_t free_region(void *begin, bool on_device, bool registered, const char *call)
{
    Region region;
    EMU_TRY(outside_captures(call));
    wait_for_device(-1);
    if (!take(begin, on_device, registered, region))
        return result(refuse(registered ? cudaErrorHostMemoryNotRegistered : cudaErrorInvalidValue,
                             "%s of what is no such memory", call));
    release((char *)begin, region);
    return cudaSuccess;
}

bool reserve(size_t bytes)
{
    std::lock_guard<std::mutex> held(memory->lock);
    if (memory->used[device()] + bytes > DEVICE_BYTES)
        return false;
    memory->used[device()] += bytes;
    return true;
}

} // namespace

int emulation::place(const void *address, size_t bytes, bool *fits_p)
{
    std::lock_guard<std::mutex> held(memory->lock);
    auto after = memory->regions.upper_bound((char *)address);
    *fits_p = true;
    if (after == memory->regions.begin())
        return PAGEABLE;
    auto &[begin, region] = *std::prev(after);
    if ((char *)address > begin + region.bytes)
        return PAGEABLE;
    *fits_p = (char *)address + bytes <= begin + region.bytes;
    return region.device;
}

void emulation::enter_devices()
{
#ifndef __SANITIZE_ADDRESS__
    if (protection_key() >= 0)
        pkey_set(protection_key(), 0);
#endif
}

/* -- Devices' memory --------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **begin_p, size_t bytes)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    EMU_TRY(outside_captures("cudaMalloc"));
    *begin_p = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    Region region = {bytes, device(), false};
    if (!reserve(bytes) || !(*begin_p = new_device_memory(bytes, region)))
        return result(cudaErrorMemoryAllocation);
    insert(*begin_p, region);
    return cudaSuccess;
}

cudaError_t cudaFree(void *begin)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    if (getenv("HD_EMULATED_BUSY")) /* freeing nothing is how programs ask for a context */
        return result(cudaErrorDevicesUnavailable);
    return begin ? free_region(begin, true, false, "cudaFree") : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_p, size_t *total_p)
{
    EMU_TRY(usable());
    std::lock_guard<std::mutex> held(memory->lock);
    *total_p = DEVICE_BYTES;
    *free_p = DEVICE_BYTES - memory->used[device()];
    return cudaSuccess;
}

/* -- The host's pinned memory ------------------------------------------------------------------ */

cudaError_t cudaHostAlloc(void **begin_p, size_t bytes, unsigned)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    EMU_TRY(outside_captures("cudaHostAlloc"));
    *begin_p = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    if (posix_memalign(begin_p, ALIGNMENT, bytes) != 0)
        return result(cudaErrorMemoryAllocation);
    insert(*begin_p, {bytes, PINNED, false});
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **begin_p, size_t bytes)
{
    return cudaHostAlloc(begin_p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *begin)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    return begin ? free_region(begin, false, false, "cudaFreeHost") : cudaSuccess;
}

cudaError_t cudaHostRegister(void *begin, size_t bytes, unsigned)
{
    bool fits;
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    EMU_TRY(outside_captures("cudaHostRegister"));
    if (place(begin, bytes, &fits) != PAGEABLE)
        return result(
            refuse(cudaErrorHostMemoryAlreadyRegistered, "memory that is pinned already"));
    insert(begin, {bytes, PINNED, true});
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *begin)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    return free_region(begin, false, true, "cudaHostUnregister");
}

cudaError_t cudaHostGetDevicePointer(void **device_p, void *host, unsigned)
{
    bool fits;
    EMU_TRY(usable());
    if (place(host, 1, &fits) != PINNED)
        return result(refuse(cudaErrorInvalidValue, "the memory is not pinned"));
    *device_p = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *address)
{
    bool fits;
    EMU_TRY(usable());
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
