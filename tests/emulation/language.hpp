/* SPDX-License-Identifier: Apache-2.0 */
/* What the project's kernels use of CUDA's language, for the host. Types and functions of the
 * runtime are CUDA's own. */
#pragma once

#include "tests/emulation/kernel.hpp"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <vector_functions.h>

/* -- Keywords ---------------------------------------------------------------------------------- */
/* CUDA's headers define those for functions away. Blocks run one after the other, so what a block
 * shares is static. It lies in a section of its own (but not a template's: the compiler does not
 * obey there), which is filled with NaN before every block; under AddressSanitizer, which leaves
 * such sections alone, it does not. */
#undef __shared__
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static __attribute__((section("hd_emulated_shared")))
extern "C" __attribute__((weak, visibility("hidden"))) char __start_hd_emulated_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) char __stop_hd_emulated_shared[];
static const int hd_emulated_section =
    (hd_emulated_shared_at(__start_hd_emulated_shared, __stop_hd_emulated_shared), 0);
#endif
#undef __launch_bounds__
#define __launch_bounds__(...)

/* -- Launches ---------------------------------------------------------------------------------- */
template <typename T> struct hd_emulated_same {
    typedef T type;
};

template <typename T> void hd_emulated_check_argument(const char *name, int number, T argument)
{
    if constexpr (std::is_pointer<T>::value)
        hd_emulated_check(name, number, (const void *)argument);
    (void)name, (void)number, (void)argument;
}

/* Arguments are converted to the types of the kernel's parameters and copied at the launch. */
template <typename... P>
void hd_emulated_call(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                      cudaStream_t stream, typename hd_emulated_same<P>::type... arguments)
{
    static_assert((std::is_trivially_copyable<P>::value && ...), "arguments are copied as bytes");
    static_assert((sizeof(P) + ... + 0) <= 32764, "more than CUDA's limit");
    int number = 0;
    (hd_emulated_check_argument<P>(name, number++, arguments), ...);
    (void)number;
    std::tuple<P...> copied(arguments...);
    hd_emulated_launch({name, grid, block, [=] { std::apply(kernel, copied); }}, stream);
}

#define HD_LAUNCH(kernel, blocks, threads, stream, ...)                                            \
    (hd_emulated_call(#kernel, kernel, dim3(blocks), dim3(threads), (cudaStream_t)(stream),        \
                      ##__VA_ARGS__),                                                              \
     hd_cuda_check(cudaGetLastError(), #kernel))

/* -- Barriers ---------------------------------------------------------------------------------- */
#define HD_EMULATED_TEXT_(x) #x
#define HD_EMULATED_TEXT(x) HD_EMULATED_TEXT_(x)
#define HD_EMULATED_PLACE __FILE__ ":" HD_EMULATED_TEXT(__LINE__)
#define __syncthreads() ((void)hd_emulated_barrier(HD_EMULATED_PLACE, false))
#define __syncthreads_count(predicate) hd_emulated_barrier(HD_EMULATED_PLACE, (predicate) != 0)
#define __syncthreads_or(predicate) (__syncthreads_count(predicate) > 0)
#define __syncthreads_and(predicate) (__syncthreads_count(!(predicate)) == 0)

/* Kernels run in one thread of the host. */
static inline void __threadfence_block(void)
{
}

static inline void __threadfence(void)
{
}

static inline void __threadfence_system(void)
{
}

/* -- Warps: lanes exchange values -------------------------------------------------------------- */
static const int warpSize = 32;

static inline void __syncwarp(unsigned mask = 0xFFFFFFFF)
{
    hd_emulated_exchange("__syncwarp", mask, hd_emulated_lane(), 0, false);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return hd_emulated_exchange("__ballot_sync", mask, hd_emulated_lane(), 0, predicate != 0)
        .ballot;
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}

template <typename T>
static inline T hd_emulated_shuffle(const char *what, unsigned mask, T value, int source)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffled types have 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = hd_emulated_exchange(what, mask, source, bits, false).value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    const int first = hd_emulated_lane() & -width;
    return hd_emulated_shuffle("__shfl_sync", mask, value, first + (source & (width - 1)));
}

template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const int lane = hd_emulated_lane(), first = lane & -width, source = lane - (int)delta;
    return hd_emulated_shuffle("__shfl_up_sync", mask, value, source < first ? lane : source);
}

template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const int lane = hd_emulated_lane(), end = (lane & -width) + width, source = lane + (int)delta;
    return hd_emulated_shuffle("__shfl_down_sync", mask, value, source >= end ? lane : source);
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
    const int lane = hd_emulated_lane(), end = (lane & -width) + width, source = lane ^ lanes;
    return hd_emulated_shuffle("__shfl_xor_sync", mask, value, source >= end ? lane : source);
}

/* -- Memory ------------------------------------------------------------------------------------ */
template <typename T> static inline T __ldg(const T *address)
{
    return *address;
}

/* Of integers only: sums of floats in any order would not repeat their bits. */
template <typename T> static inline T atomicAdd(T *to, typename hd_emulated_same<T>::type value)
{
    static_assert(std::is_integral<T>::value, "not deterministic");
    const T old = *to;
    *to = old + value;
    return old;
}

template <typename T> static inline T atomicMax(T *to, typename hd_emulated_same<T>::type value)
{
    const T old = *to;
    *to = old > value ? old : value;
    return old;
}

template <typename T> static inline T atomicMin(T *to, typename hd_emulated_same<T>::type value)
{
    const T old = *to;
    *to = old < value ? old : value;
    return old;
}

template <typename T> static inline T atomicOr(T *to, typename hd_emulated_same<T>::type value)
{
    const T old = *to;
    *to = old | value;
    return old;
}

/* -- Arithmetic -------------------------------------------------------------------------------- */
template <typename A, typename B> static inline typename std::common_type<A, B>::type min(A a, B b)
{
    typedef typename std::common_type<A, B>::type both;
    if constexpr (std::is_floating_point<both>::value)
        return fmin((both)a, (both)b);
    return (both)b < (both)a ? (both)b : (both)a;
}

template <typename A, typename B> static inline typename std::common_type<A, B>::type max(A a, B b)
{
    typedef typename std::common_type<A, B>::type both;
    if constexpr (std::is_floating_point<both>::value)
        return fmax((both)a, (both)b);
    return (both)a < (both)b ? (both)b : (both)a;
}

template <typename To, typename From> static inline To hd_emulated_bits(From value)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits as another type");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline unsigned __float_as_uint(float value)
{
    return hd_emulated_bits<unsigned>(value);
}

static inline int __float_as_int(float value)
{
    return hd_emulated_bits<int>(value);
}

static inline float __uint_as_float(unsigned value)
{
    return hd_emulated_bits<float>(value);
}

static inline float __int_as_float(int value)
{
    return hd_emulated_bits<float>(value);
}

static inline long long __double_as_longlong(double value)
{
    return hd_emulated_bits<long long>(value);
}

static inline double __longlong_as_double(long long value)
{
    return hd_emulated_bits<double>(value);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

static inline int __popc(unsigned value)
{
    return __builtin_popcount(value);
}

static inline int __popcll(unsigned long long value)
{
    return __builtin_popcountll(value);
}

static inline int __clz(int value)
{
    return value ? __builtin_clz((unsigned)value) : 32;
}

static inline int __ffs(int value)
{
    return __builtin_ffs(value);
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static inline float rsqrtf(float a)
{
    return (float)(1 / sqrt((double)a));
}
