/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of CUDA's runtime, for C and CUDA sources of kernels. Thread safe. */
#pragma once

#include "runtime/base/gpu_error.h"
#include "runtime/base/status.h"

#include <cuda_runtime_api.h>

/* Returns HD_OK, or HD_ERR_DEVICE after telling the error and the failed call `what`. */
static inline int hd_cuda_check(cudaError_t error, const char *what)
{
    int gpu = 0;
    if (error == cudaSuccess)
        return HD_OK;
    cudaGetDevice(&gpu);
    return hd_gpu_fail(gpu, what, cudaGetErrorString(error), cudaGetErrorName(error));
}
