/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what GPUs can run with what this build has kernels for. Thread safe. */
#pragma once

#include <stdbool.h>

enum { HD_GPU_ARCH_BYTES = 512 };

/* Returns whether kernels for `architectures`, the list of CMAKE_CUDA_ARCHITECTURES with commas,
 * run on a GPU of this compute capability, 86 for 8.6. */
bool hd_gpu_arch_fits(const char *architectures, int capability);

/* Returns whether this build's kernels run on GPU `device` (CUDA's number). Otherwise text_p names
 * the GPU and says how to build for it. Makes no context. */
bool hd_gpu_arch_check(int device, char text_p[HD_GPU_ARCH_BYTES]);
