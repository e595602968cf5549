/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA sources of the kernels share. Kernels have static shared memory only and are launched
 * by HD_LAUNCH, so that they can also be compiled for the host, where a <cuda_runtime.h> of the
 * tests' own takes the place of CUDA's and runs them thread by thread (tests/emulation). */
#ifndef HD_KERNELS_COMMON_CUDA_CUH
#define HD_KERNELS_COMMON_CUDA_CUH

#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "runtime/base/inline.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
}

/* HD_OK, or HD_ERR_DEVICE with the call named in the log. */
static inline int hd_cuda_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return HD_OK;
    return hd_fail(HD_ERR_DEVICE, "%s: %s (%s)", what, cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

/* kernel(…) by `threads` in each of `blocks` (int or dim3) on `stream`, a void *; yields a status:
 * whether it could be launched. The body runs later; its own failure shows at the stream's end. */
#ifdef __CUDACC__
#define HD_LAUNCH(kernel, blocks, threads, stream, ...)                                            \
    (kernel<<<(blocks), (threads), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__),                      \
     hd_cuda_check(cudaGetLastError(), #kernel))
#endif

/* A launch of a thread per element: blocks of HD_THREADS, the last one not full. */
enum { HD_THREADS = 256 };

static inline unsigned hd_cuda_count_blocks(int64_t elements)
{
    return (unsigned)((elements + HD_THREADS - 1) / HD_THREADS);
}

/* An argument that threads read where it lies, even by a computed index. */
#ifndef __grid_constant__
#define __grid_constant__
#endif

/* This thread's element in such a launch; kernels compare it with their number of elements. */
#define HD_ELEMENT ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)

#endif
