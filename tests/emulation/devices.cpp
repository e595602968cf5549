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

using namespace emulation;

static thread_local int current_device;
static thread_local cudaError_t last_error;
static std::atomic<bool> used, lost;
static std::atomic<int64_t> synchronous, pageable, launches;

namespace emulation
{

cudaError_t result(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t refuse(cudaError_t error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulation: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, " (%s)\n", cudaGetErrorName(error));
    va_end(arguments);
    return error;
}

int n_devices()
{
    const char *wanted = getenv("HD_EMULATED_DEVICES");
    const int n = wanted ? atoi(wanted) : 1;
    return n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
}

int device()
{
    return current_device;
}

cudaError_t usable()
{
    static const int once =
        pthread_atfork(nullptr, nullptr, [] { lost = used.load() || lost.load(); });
    (void)once;
    used = true;
    if (lost)
        return refuse(cudaErrorInitializationError, "devices were used before the process forked");
    return n_devices() > 0 ? cudaSuccess : cudaErrorNoDevice;
}

void count_synchronous()
{
    synchronous++;
}

void count_pageable()
{
    pageable++;
}

void count_launch()
{
    launches++;
}

} // namespace emulation

int64_t hd_emulated_synchronous_calls(void)
{
    return synchronous;
}

int64_t hd_emulated_pageable_copies(void)
{
    return pageable;
}

int64_t hd_emulated_launches(void)
{
    return launches;
}

/* -- Errors ------------------------------------------------------------------------------------ */

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

#define ERRORS(X)                                                                                  \
    X(cudaSuccess)                                                                                 \
    X(cudaErrorInvalidValue)                                                                       \
    X(cudaErrorMemoryAllocation)                                                                   \
    X(cudaErrorInitializationError)                                                                \
    X(cudaErrorInvalidConfiguration)                                                               \
    X(cudaErrorNoDevice)                                                                           \
    X(cudaErrorInvalidDevice)                                                                      \
    X(cudaErrorInvalidResourceHandle)                                                              \
    X(cudaErrorNotReady)                                                                           \
    X(cudaErrorNotSupported)                                                                       \
    X(cudaErrorPeerAccessAlreadyEnabled)                                                           \
    X(cudaErrorHostMemoryAlreadyRegistered)                                                        \
    X(cudaErrorHostMemoryNotRegistered)                                                            \
    X(cudaErrorStreamCaptureUnsupported)                                                           \
    X(cudaErrorStreamCaptureInvalidated)                                                           \
    X(cudaErrorStreamCaptureUnmatched)                                                             \
    X(cudaErrorStreamCaptureUnjoined)                                                              \
    X(cudaErrorStreamCaptureImplicit)                                                              \
    X(cudaErrorStreamCaptureWrongThread)                                                           \
    X(cudaErrorIllegalState)

const char *cudaGetErrorName(cudaError_t error)
{
    switch ((int)error) {
#define NAME(name)                                                                                 \
    case name:                                                                                     \
        return #name;
        ERRORS(NAME)
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "refused by the emulation";
}

/* -- Devices ----------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count_p)
{
    const cudaError_t error = usable();
    *count_p = error == cudaSuccess ? n_devices() : 0;
    return result(error);
}

cudaError_t cudaSetDevice(int number)
{
    if (usable() != cudaSuccess)
        return result(usable());
    if (number < 0 || number >= n_devices())
        return result(refuse(cudaErrorInvalidDevice, "there is no device %d", number));
    current_device = number;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number_p)
{
    *number_p = current_device;
    return result(usable());
}
