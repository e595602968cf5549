/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory and a stream for the tests of CUDA kernels, which are marked `.cuda = true`. They
 * are run as gpu/test_X on a GPU and, by another program, as emulated/test_X on the emulation. One
 * thread at a time. */
#pragma once

#include "tests/kernels/common/check_close.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if HD_CUDA
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE_TRY(call) ck_assert_msg((call) == cudaSuccess, "%s failed", #call)

static void *device_blocks[TEST_BLOCKS], *shared_blocks[TEST_BLOCKS];
static int n_device_blocks, n_shared_blocks;
static cudaStream_t device_stream_;

/* Returns the test's stream, which does not synchronise with the default stream. */
static inline void *device_stream(void)
{
    if (!device_stream_)
        DEVICE_TRY(cudaStreamCreateWithFlags(&device_stream_, cudaStreamNonBlocking));
    return device_stream_;
}

/* Copies bytes of device memory to `to`, after all that is enqueued on the stream. */
static inline void device_get(void *to, const void *device, int64_t bytes)
{
    DEVICE_TRY(cudaStreamSynchronize(device_stream()));
    DEVICE_TRY(cudaMemcpy(to, device, (size_t)bytes, cudaMemcpyDeviceToHost));
}

/* Waits for what is enqueued on the stream, if there is one. */
static inline void device_settle(void)
{
    if (device_stream_)
        DEVICE_TRY(cudaStreamSynchronize(device_stream_));
}

/* Copies bytes of the host to device memory, after all that is enqueued on the stream. cudaMemcpy
 * returns when it has read pageable memory, which may be before the device has the bytes, and
 * streams that do not block do not wait for it. */
static inline void device_put(void *device, const void *from, int64_t bytes)
{
    device_settle();
    DEVICE_TRY(cudaMemcpy(device, from, (size_t)bytes, cudaMemcpyHostToDevice));
    DEVICE_TRY(cudaDeviceSynchronize());
}

/* Fills device memory with bytes of 0xFF, which are NaN, likewise. */
static inline void device_fill(void *device, int64_t bytes)
{
    device_settle();
    DEVICE_TRY(cudaMemset(device, 0xFF, (size_t)bytes));
    DEVICE_TRY(cudaDeviceSynchronize());
}

/* Returns device memory with this content (NULL: bytes of 0xFF, which are NaN), until the test
 * ends. */
static inline void *device_make(const void *content, int64_t bytes)
{
    ck_assert_int_lt(n_device_blocks, TEST_BLOCKS);
    void **block = &device_blocks[n_device_blocks++];
    DEVICE_TRY(cudaMalloc(block, (size_t)(bytes > 0 ? bytes : 1)));
    if (content)
        device_put(*block, content, bytes);
    else
        device_fill(*block, bytes);
    return *block;
}

/* Returns zeroed host memory that devices address too, until the test ends. */
static inline void *device_shared(int64_t bytes)
{
    ck_assert_int_lt(n_shared_blocks, TEST_BLOCKS);
    void **block = &shared_blocks[n_shared_blocks++];
    DEVICE_TRY(cudaHostAlloc(block, (size_t)(bytes > 0 ? bytes : 1), cudaHostAllocPortable));
    return memset(*block, 0, (size_t)bytes);
}

static inline void free_device_blocks(void)
{
    device_settle();
    while (n_device_blocks > 0)
        DEVICE_TRY(cudaFree(device_blocks[--n_device_blocks]));
    while (n_shared_blocks > 0)
        DEVICE_TRY(cudaFreeHost(shared_blocks[--n_shared_blocks]));
    if (device_stream_)
        DEVICE_TRY(cudaStreamDestroy(device_stream_));
    device_stream_ = NULL;
}

/* Returns whether a GPU can be used. Asks in a child process: after a process has used a GPU, its
 * children cannot, and every test is a child. */
static inline bool device_here(void)
{
    const pid_t child = fork();
    int n, status;
    if (child == 0)
        _exit(cudaGetDeviceCount(&n) == cudaSuccess && n > 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static inline const char *find_missing_gpu(void)
{
    return device_here() ? NULL : "no GPU here";
}

TEST_REGISTER_(device, .cuda = true, .find_hindrance = find_missing_gpu,
               .teardown = free_device_blocks)

#endif
