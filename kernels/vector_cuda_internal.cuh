/* SPDX-License-Identifier: Apache-2.0 */
/* HD_VECTOR elements at once, as CUDA sources read and write activations. */
#ifndef HD_KERNELS_VECTOR_CUDA_INTERNAL_CUH
#define HD_KERNELS_VECTOR_CUDA_INTERNAL_CUH

#include "kernels/cuda_internal.cuh"

extern "C" {
#include "kernels/bf16.h"
#include "kernels/net_cuda_internal.h"
}

template <class T> struct alignas(16) hd_vector {
    T e[HD_VECTOR];
};

static inline __device__ float hd_wide(float x)
{
    return x;
}

static inline __device__ float hd_wide(hd_bf16 x)
{
    return hd_bf16_to(x);
}

template <class T> static inline __device__ T hd_narrow(float x);

template <> inline __device__ float hd_narrow<float>(float x)
{
    return x;
}

template <> inline __device__ hd_bf16 hd_narrow<hd_bf16>(float x)
{
    return hd_bf16_from(x);
}

template <class T> static inline __device__ hd_vector<T> hd_load(const T *from)
{
    return *(const hd_vector<T> *)from;
}

template <class T> static inline __device__ void hd_store(T *to, const hd_vector<T> &x)
{
    *(hd_vector<T> *)to = x;
}

/* Calls launch(T()) with the type of activations. */
template <class Launch> static inline int hd_by_type(bool bf16, Launch launch)
{
    return bf16 ? launch(hd_bf16()) : launch(float());
}

#endif
