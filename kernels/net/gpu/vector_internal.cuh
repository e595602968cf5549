/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of HD_VECTOR elements, the unit in which CUDA sources read and write activations. */
#pragma once

#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/common/bf16.h"
#include "kernels/net/gpu/launches.h"
}

template <class T> struct alignas(16) hd_vector {
    T e[HD_VECTOR];
};

static inline __device__ float hd_to_float(float x)
{
    return x;
}

static inline __device__ float hd_to_float(hd_bf16 x)
{
    return hd_bf16_to_float(x);
}

template <class T> static inline __device__ T hd_from_float(float x);

template <> inline __device__ float hd_from_float<float>(float x)
{
    return x;
}

template <> inline __device__ hd_bf16 hd_from_float<hd_bf16>(float x)
{
    return hd_bf16_from_float(x);
}

template <class T> static inline __device__ hd_vector<T> hd_load(const T *from)
{
    return *(const hd_vector<T> *)from;
}

/* Stores 16 bytes by an explicit instruction: nvcc splits the store of a struct that was computed
 * element by element. */
#ifdef __CUDACC__
#define HD_STORE_16(to, value) __stwb(to, value)
#else
#define HD_STORE_16(to, value) ((void)(*(to) = (value)))
#endif

static inline __device__ void hd_store(float *to, const hd_vector<float> &x)
{
    HD_STORE_16((float4 *)to, make_float4(x.e[0], x.e[1], x.e[2], x.e[3]));
    HD_STORE_16((float4 *)to + 1, make_float4(x.e[4], x.e[5], x.e[6], x.e[7]));
}

static inline __device__ void hd_store(hd_bf16 *to, const hd_vector<hd_bf16> &x)
{
    uint32_t word[HD_VECTOR / 2];
#pragma unroll
    for (int i = 0; i < HD_VECTOR / 2; i++)
        word[i] = (uint32_t)x.e[2 * i + 1] << 16 | x.e[2 * i];
    HD_STORE_16((uint4 *)to, make_uint4(word[0], word[1], word[2], word[3]));
}

/* Calls launch(T()) with the type of activations. */
template <class Launch> static inline int hd_dispatch_type(bool bf16, Launch launch)
{
    return bf16 ? launch(hd_bf16()) : launch(float());
}
