/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

#include "runtime/base/alloc.h"
#include "runtime/base/gpu_error.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#if HD_CUDA
#include <cuda_runtime_api.h>

int hd_device_check(int error, const char *what)
{
    int device = 0;
    if (error == cudaSuccess)
        return HD_OK;
    if (error == cudaErrorMemoryAllocation) /* the GPU is as good as before */
        return hd_fail(HD_ERR_DEVICE, "%s: %s", what, cudaGetErrorString((cudaError_t)error));
    cudaGetDevice(&device);
    return hd_gpu_fail(device, what, cudaGetErrorString((cudaError_t)error),
                       cudaGetErrorName((cudaError_t)error));
}

/* The first call of CUDA starts threads, which may take any signal that they do not block: a
 * launcher that waits for SIGCHLD by a signalfd has waited for ever. */
int hd_device_count(void)
{
    sigset_t all, before;
    int n = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const cudaError_t error = cudaGetDeviceCount(&n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == cudaSuccess)
        return n;
    cudaGetLastError(); /* no driver is no failure of later calls */
    return 0;
}

int hd_device_use(int device)
{
    return hd_device_check(cudaSetDevice(device), "a GPU cannot be used");
}

void *hd_device_alloc(int device, int64_t bytes)
{
    void *memory = NULL;
    if (hd_device_use(device) != HD_OK)
        return NULL;
    if (hd_device_check(cudaMalloc(&memory, (size_t)(bytes > 0 ? bytes : 1)), "memory of a GPU") ==
        HD_OK)
        hd_device_check(cudaMemset(memory, 0, (size_t)bytes), "memory of a GPU");
    hd_device_check(cudaDeviceSynchronize(), "memory of a GPU");
    return memory;
}

void hd_device_free(int device, void *memory)
{
    if (memory && hd_device_use(device) == HD_OK)
        hd_device_check(cudaFree(memory), "memory of a GPU");
}

void *hd_pinned_alloc(int64_t bytes)
{
    void *memory = NULL;
    if (hd_device_check(
            cudaHostAlloc(&memory, (size_t)(bytes > 0 ? bytes : 1), cudaHostAllocPortable),
            "pinned memory") != HD_OK)
        return NULL;
    return memset(memory, 0, (size_t)bytes);
}

void hd_pinned_free(void *memory)
{
    if (memory)
        hd_device_check(cudaFreeHost(memory), "pinned memory");
}

int hd_device_copy(void *to, const void *from, int64_t bytes, void *stream)
{
    return hd_device_check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, stream),
                           "a copy to or from a GPU");
}

int hd_stream_create(int device, void **stream_p)
{
    cudaStream_t stream;
    HD_TRY(hd_device_use(device));
    HD_TRY(hd_device_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
    *stream_p = stream;
    return HD_OK;
}

int hd_stream_wait(void *stream)
{
    return hd_device_check(cudaStreamSynchronize(stream), "work of a GPU");
}

void hd_stream_destroy(int device, void *stream)
{
    if (stream && hd_device_use(device) == HD_OK)
        hd_device_check(cudaStreamDestroy(stream), "a stream");
}

void hd_device_clear_error(void)
{
    cudaGetLastError();
}

int hd_device_get_capability(int device)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        cudaGetLastError(); /* a call that needs the GPU tells of it */
    return 10 * major + minor;
}

void hd_device_get_name(int device, char *text, int64_t bytes)
{
    struct cudaDeviceProp properties;
    int version = 0;
    text[0] = '\0';
    if (hd_device_check(cudaGetDeviceProperties(&properties, device), "reading its name") ==
            HD_OK &&
        cudaDriverGetVersion(&version) == cudaSuccess)
        snprintf(text, (size_t)bytes, "%s, driver %d.%d", properties.name, version / 1000,
                 version % 1000 / 10);
}

bool hd_device_get_versions(int *runtime_p, int *driver_p)
{
    return cudaRuntimeGetVersion(runtime_p) == cudaSuccess &&
           cudaDriverGetVersion(driver_p) == cudaSuccess;
}

#else

static int no_device(void)
{
    return hd_fail(HD_ERR_UNSUPPORTED, "this program was built without CUDA");
}

int hd_device_count(void)
{
    return 0;
}

int hd_device_use(int device)
{
    (void)device;
    return no_device();
}

void *hd_device_alloc(int device, int64_t bytes)
{
    (void)device, (void)bytes;
    no_device();
    return NULL;
}

void hd_device_free(int device, void *memory)
{
    (void)device, (void)memory;
}

void *hd_pinned_alloc(int64_t bytes)
{
    return hd_alloc(bytes, 1);
}

void hd_pinned_free(void *memory)
{
    hd_free(memory);
}

int hd_device_copy(void *to, const void *from, int64_t bytes, void *stream)
{
    (void)to, (void)from, (void)bytes, (void)stream;
    return no_device();
}

int hd_stream_create(int device, void **stream_p)
{
    (void)device, (void)stream_p;
    return no_device();
}

int hd_stream_wait(void *stream)
{
    (void)stream;
    return no_device();
}

void hd_stream_destroy(int device, void *stream)
{
    (void)device, (void)stream;
}

int hd_device_check(int error, const char *what)
{
    (void)error, (void)what;
    return no_device();
}

void hd_device_clear_error(void)
{
}

int hd_device_get_capability(int device)
{
    (void)device;
    return 0;
}

void hd_device_get_name(int device, char *text, int64_t bytes)
{
    (void)device;
    if (bytes > 0)
        text[0] = '\0';
}

bool hd_device_get_versions(int *runtime_p, int *driver_p)
{
    (void)runtime_p;
    (void)driver_p;
    return false;
}
#endif
