/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of frames by the threads of a block, in the widest words that sizes and addresses
 * allow. */
#pragma once

#include "kernels/common/cuda.cuh"

/* Returns the largest word size of 16, 4 and 1 that divides everything or-ed into `bits`: addresses
 * and sizes. */
static inline int hd_cuda_choose_word(uint64_t bits)
{
    return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
}

static inline uint64_t hd_cuda_get_bits(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

/* Chooses the shape of a block that copies `frames` frames of `words` words: up to four frames at a
 * time, with about four words of a frame in flight in each thread. */
static inline dim3 hd_cuda_choose_copiers(int64_t words, int64_t frames)
{
    const int64_t few = 4, max = 256, warps = (words + few * 32 - 1) / (few * 32);
    const int64_t across = warps < 1 ? 32 : warps > max / 32 ? max : warps * 32;
    return dim3((unsigned)across, (unsigned)(frames < 4 ? frames : 4));
}

/* Copies `bytes` bytes, shared among the threads with the same threadIdx.y. */
template <typename word>
static __device__ inline void hd_copy_words(const char *__restrict__ from, char *__restrict__ to,
                                            int64_t bytes)
{
    const int n = (int)(bytes / (int64_t)sizeof(word));
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        ((word *)to)[i] = ((const word *)from)[i];
}

/* Launches kernel<word>(…) in blocks that copy `frames` frames of `bytes` bytes each, with the
 * widest word that divides `bits`. Yields HD_OK or HD_ERR_DEVICE (logged). */
#define HD_LAUNCH_COPY(kernel, bits, bytes, frames, blocks, stream, ...)                           \
    (hd_cuda_choose_word(bits) == 16                                                               \
         ? HD_LAUNCH(kernel<uint4>, blocks, hd_cuda_choose_copiers((bytes) / 16, frames), stream,  \
                     __VA_ARGS__)                                                                  \
     : hd_cuda_choose_word(bits) == 4                                                              \
         ? HD_LAUNCH(kernel<uint32_t>, blocks, hd_cuda_choose_copiers((bytes) / 4, frames),        \
                     stream, __VA_ARGS__)                                                          \
         : HD_LAUNCH(kernel<uint8_t>, blocks, hd_cuda_choose_copiers(bytes, frames), stream,       \
                     __VA_ARGS__))
