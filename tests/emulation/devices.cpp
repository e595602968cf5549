/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, errors and counters of the emulated runtime. */
#include "tests/emulation/emulation.h"
#include "tests/emulation/runtime.hpp"

#include <atomic>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <thread>
#include <time.h>
#include <unistd.h>

using namespace emulation;

static thread_local int current_device;
static thread_local cudaError_t last_error;
static std::atomic<int64_t> counters[N_COUNTERS];
static std::atomic<bool> peers[MAX_DEVICES][MAX_DEVICES];

/* -- Errors and counters ----------------------------------------------------------------------- */

cudaError_t emulation::result(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t emulation::refuse(cudaError_t error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulation: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, " (%s)\n", cudaGetErrorName(error));
    va_end(arguments);
    return error;
}

void emulation::die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulation: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

void emulation::count(Counter counter)
{
    counters[counter]++;
}

int64_t hd_emulated_synchronous_calls(void)
{
    return counters[SYNCHRONOUS_CALLS];
}

int64_t hd_emulated_pageable_copies(void)
{
    return counters[PAGEABLE_COPIES];
}

int64_t hd_emulated_launches(void)
{
    return counters[LAUNCHES];
}

int64_t hd_emulated_graph_launches(void)
{
    return counters[GRAPH_LAUNCHES];
}

/* -- Faults ------------------------------------------------------------------------------------ */

static int64_t number_in(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? atoll(text) : otherwise;
}

static const int64_t fault_after = number_in("HD_EMULATED_FAULT", 0);
static const int64_t fault_device = number_in("HD_EMULATED_FAULT_DEVICE", -1);
static const bool fault_hangs = number_in("HD_EMULATED_FAULT_HANGS", 0);
static std::atomic<int64_t> calls;

static bool may_fail(int device)
{
    return fault_after > 0 && (fault_device < 0 || device == fault_device);
}

cudaError_t emulation::fault(int device)
{
    return may_fail(device) && calls >= fault_after ? cudaErrorIllegalAddress : cudaSuccess;
}

static void tell_of_fault()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "emulation: calls fail from %lld.%09ld s on\n", (long long)now.tv_sec,
            now.tv_nsec);
}

static cudaError_t count_call()
{
    const cudaError_t before = fault(current_device);
    while (fault_hangs && before != cudaSuccess)
        pause();
    if (may_fail(current_device) && ++calls == fault_after)
        tell_of_fault();
    return before;
}

/* How far a fault can be put off. */
__attribute__((destructor)) static void tell_of_calls()
{
    if (fault_after > 0)
        fprintf(stderr, "emulation: %lld calls\n", (long long)calls);
}

cudaError_t cudaGetLastError(void)
{
    if (fault(current_device) != cudaSuccess)
        return fault(current_device);
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return fault(current_device) != cudaSuccess ? fault(current_device) : last_error;
}

/* The errors that the emulation returns. */
#define ERRORS(X)                                                                                  \
    X(cudaSuccess, "no error")                                                                     \
    X(cudaErrorInvalidValue, "invalid argument")                                                   \
    X(cudaErrorMemoryAllocation, "out of memory")                                                  \
    X(cudaErrorInitializationError, "initialization error")                                        \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                             \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                     \
    X(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")            \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                            \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                   \
    X(cudaErrorNotReady, "device not ready")                                                       \
    X(cudaErrorNotSupported, "operation not supported")                                            \
    X(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                         \
    X(cudaErrorHostMemoryAlreadyRegistered, "memory already pinned")                               \
    X(cudaErrorHostMemoryNotRegistered, "memory not pinned")                                       \
    X(cudaErrorCapturedEvent, "event last recorded in a capturing stream")                         \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                         \
    X(cudaErrorIllegalState, "illegal state")                                                      \
    X(cudaErrorStreamCaptureUnsupported, "not permitted when a stream is capturing")               \
    X(cudaErrorStreamCaptureInvalidated, "capture made void by a previous error")                  \
    X(cudaErrorStreamCaptureMerge, "two captures would be merged")                                 \
    X(cudaErrorStreamCaptureUnmatched, "capture was not begun in this stream")                     \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                        \
    X(cudaErrorStreamCaptureIsolation, "dependency on work outside the capture")                   \
    X(cudaErrorStreamCaptureWrongThread, "capture was begun in another thread")

const char *cudaGetErrorName(cudaError_t error)
{
    switch ((int)error) {
#define NAME(name, text)                                                                           \
    case name:                                                                                     \
        return #name;
        ERRORS(NAME)
    default:
        return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch ((int)error) {
#define TEXT(name, text)                                                                           \
    case name:                                                                                     \
        return text;
        ERRORS(TEXT)
    default:
        return "unrecognized error code";
    }
}

/* -- Devices ----------------------------------------------------------------------------------- */

static int installed()
{
    const char *wanted = getenv("HD_EMULATED_DEVICES");
    const int n = wanted ? atoi(wanted) : 1;
    return n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
}

/* Returns which one the process sees as `number`; -1: there is none. */
static int installed_device(int number)
{
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    if (!shown)
        return number < installed() ? number : -1;
    for (int i = 0;; i++, shown++) {
        char *rest;
        const long device = strtol(shown, &rest, 10);
        if (rest == shown || device < 0 || device >= installed())
            return -1;
        if (i == number)
            return (int)device;
        shown = rest;
        if (*shown != ',')
            return -1;
    }
}

int emulation::n_devices()
{
    int n = 0;
    while (n < MAX_DEVICES && installed_device(n) >= 0)
        n++;
    return n;
}

int emulation::device()
{
    return current_device;
}

bool emulation::reaches(int from, int to)
{
    return from == to || peers[from][to];
}

/* Set in a child of a process that had used devices. */
static std::atomic<bool> lost, used;

/* The driver's thread, which takes the signals that the thread of the first call did not block. */
static void wait_for_events()
{
    prctl(PR_SET_NAME, "cuda-EvtHandlr");
    for (;;)
        pause();
}

cudaError_t emulation::usable()
{
    static const int registered = pthread_atfork(nullptr, nullptr, [] { lost = used.load(); });
    (void)registered;
    if (lost)
        return refuse(cudaErrorInitializationError, "devices were used before the process forked");
    if (!used.exchange(true))
        std::thread(wait_for_events).detach();
    EMU_TRY(count_call());
    return n_devices() > 0 ? cudaSuccess : cudaErrorNoDevice;
}

static cudaError_t exists(int number)
{
    EMU_TRY(usable());
    if (number >= 0 && number < n_devices())
        return cudaSuccess;
    return refuse(cudaErrorInvalidDevice, "there is no device %d", number);
}

cudaError_t cudaGetDeviceCount(int *count_p)
{
    *count_p = 0;
    EMU_TRY(usable());
    *count_p = n_devices();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int number)
{
    EMU_TRY(exists(number));
    current_device = number;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number_p)
{
    *number_p = current_device;
    return n_devices() > 0 ? cudaSuccess : result(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int number)
{
    size_t free_bytes;
    EMU_TRY(exists(number));
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "emulated GPU");
    EMU_TRY(cudaMemGetInfo(&free_bytes, &properties->totalGlobalMem));
    const int capability = (int)number_in("HD_EMULATED_CAPABILITY", 90);
    properties->major = capability / 10;
    properties->minor = capability % 10;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->multiProcessorCount = 1;
    properties->sharedMemPerBlock = 48 << 10;
    properties->canMapHostMemory = properties->unifiedAddressing = 1;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 1;
    properties->pciBusID = installed_device(number) + 1;
    const int own[] = {installed_device(number), (int)number_in("HD_EMULATED_HOST", 0)};
    memcpy(properties->uuid.bytes, own, sizeof own);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value_p, cudaDeviceAttr attribute, int number)
{
    cudaDeviceProp properties;
    EMU_TRY(cudaGetDeviceProperties(&properties, number));
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        *value_p = properties.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value_p = properties.minor;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value_p = properties.multiProcessorCount;
        return cudaSuccess;
    default:
        return result(refuse(cudaErrorNotSupported, "attribute %d of a device", (int)attribute));
    }
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int number)
{
    EMU_TRY(exists(number));
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", installed_device(number) + 1);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version_p)
{
    *version_p = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version_p)
{
    return cudaDriverGetVersion(version_p);
}

cudaError_t cudaDeviceCanAccessPeer(int *can_p, int from, int to)
{
    EMU_TRY(exists(from));
    EMU_TRY(exists(to));
    *can_p = from != to;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned)
{
    EMU_TRY(exists(to));
    if (to == current_device)
        return result(refuse(cudaErrorInvalidDevice, "a device is not its own peer"));
    if (peers[current_device][to].exchange(true))
        return result(cudaErrorPeerAccessAlreadyEnabled);
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    die("cudaDeviceReset destroys the streams, events and memory of the whole process");
}

/* What only makes GPUs faster. */
cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit, size_t)
{
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return cudaSuccess;
}
