/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 16 floats, and vectors of a register's width, in the compiler's portable notation, and
 * operations on them. Thread safe. */
#pragma once

#include "kernels/common/bf16.h"

#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { HD_VEC = 16 };

/* Vectors are arguments of inlined functions only, so the warning about how they are passed does
 * not apply. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float hd_vec __attribute__((vector_size(4 * HD_VEC), aligned(4)));
typedef int32_t hd_vec_mask __attribute__((vector_size(4 * HD_VEC), aligned(4)));

/* A vector of a register's width. The compiler keeps wider vectors in memory, so sums over a long
 * index have this type. HD_REG_ROWS x HD_REG_COLUMNS of them, with their operands, fit into the
 * registers. */
#if defined __AVX512F__
enum { HD_REG = 16, HD_REG_ROWS = 6, HD_REG_COLUMNS = 4 };
#elif defined __AVX__
enum { HD_REG = 8, HD_REG_ROWS = 6, HD_REG_COLUMNS = 2 };
#else
enum { HD_REG = 4, HD_REG_ROWS = 3, HD_REG_COLUMNS = 4 };
#endif
typedef float hd_reg __attribute__((vector_size(4 * HD_REG), aligned(4)));
typedef int32_t hd_reg_mask __attribute__((vector_size(4 * HD_REG), aligned(4)));

/* Element i of the result is element from[i] of a followed by b. */
#ifndef __clang__
#define HD_SHUFFLE(a, b, from) __builtin_shuffle(a, b, from)
#else /* requires constant indices */
#define HD_SHUFFLE(a, b, from)                                                                     \
    ({                                                                                             \
        enum { n_ = sizeof(from) / sizeof((from)[0]) };                                            \
        __typeof__((a) + (a)) to_ = a;                                                             \
        for (int i_ = 0; i_ < n_; i_++)                                                            \
            to_[i_] = (from)[i_] < n_ ? (a)[(from)[i_]] : (b)[(from)[i_] - n_];                    \
        to_;                                                                                       \
    })
#endif

#define HD_ALWAYS static inline __attribute__((always_inline))

/* Returns the smaller of two counts, such as the elements left and those of a vector. */
static inline int64_t hd_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Loads 16 floats from memory of any alignment. */
HD_ALWAYS hd_vec hd_vec_load(const float *from)
{
    return *(const hd_vec *)from;
}

/* Stores 16 floats to memory of any alignment. */
HD_ALWAYS void hd_vec_store(float *to, hd_vec value)
{
    *(hd_vec *)to = value;
}

/* Loads a register of floats from memory of any alignment. */
HD_ALWAYS hd_reg hd_reg_load(const float *from)
{
    return *(const hd_reg *)from;
}

/* Stores a register of floats to memory of any alignment. */
HD_ALWAYS void hd_reg_store(float *to, hd_reg value)
{
    *(hd_reg *)to = value;
}

/* Loads the first n floats of a register, with zeros for the others. */
HD_ALWAYS hd_reg hd_reg_load_some(const float *from, int64_t n)
{
    hd_reg some = {0};
    if (n == HD_REG)
        return hd_reg_load(from);
    memcpy(&some, from, (size_t)n * sizeof *from);
    return some;
}

/* Stores the first n floats of a register. */
HD_ALWAYS void hd_reg_store_some(float *to, hd_reg value, int64_t n)
{
    if (n == HD_REG)
        hd_reg_store(to, value);
    else
        memcpy(to, &value, (size_t)n * sizeof *to);
}

/* Calls f(at, count, ...), inlined, for the registers that n floats fill: for the number of the
 * first float and for how many there are, which is a constant in all but the last. */
#define HD_FOR_REGS(n, f, ...)                                                                     \
    do {                                                                                           \
        int64_t at_ = 0;                                                                           \
        for (; at_ + HD_REG <= (n); at_ += HD_REG)                                                 \
            f(at_, HD_REG, __VA_ARGS__);                                                           \
        if (at_ < (n))                                                                             \
            f(at_, (n)-at_, __VA_ARGS__);                                                          \
    } while (0)

/* Loads 16 bytes and converts them to floats. */
HD_ALWAYS hd_vec hd_vec_load_bytes(const uint8_t *from)
{
#ifdef __AVX512F__
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)));
#else
    hd_vec value;
    for (int i = 0; i < HD_VEC; i++)
        value[i] = from[i];
    return value;
#endif
}

/* Stores 16 floats rounded to bf16. */
HD_ALWAYS void hd_vec_store_bf16(hd_bf16 *to, hd_vec value)
{
#ifdef __AVX512BF16__
    _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)value));
#else
    for (int i = 0; i < HD_VEC; i++)
        to[i] = hd_bf16_from_float(value[i]);
#endif
}

/* Stores a register of floats past the caches, if the machine can store a whole line so, to 64-byte
 * aligned memory that is not read again soon: the old content need not be loaded.
 * hd_reg_stream_end must follow the last of these stores before another thread is told of them. */
HD_ALWAYS void hd_reg_stream(float *to, hd_reg value)
{
#ifdef __AVX512F__
    _mm512_stream_ps(to, (__m512)value);
#else
    hd_reg_store(to, value);
#endif
}

/* Completes the streaming stores before. */
HD_ALWAYS void hd_reg_stream_end(void)
{
#ifdef __SSE__
    __builtin_ia32_sfence();
#endif
}

/* Returns value where `positive` is > 0 or NaN, else 0. */
HD_ALWAYS hd_reg hd_reg_rectify(hd_reg value, hd_reg positive)
{
    const hd_reg zero = {0};
    return (hd_reg)((hd_reg_mask)value & ~(hd_reg_mask)(positive <= zero));
}

/* Returns likewise. */
HD_ALWAYS hd_vec hd_vec_rectify(hd_vec value, hd_vec positive)
{
    const hd_vec zero = {0};
    return (hd_vec)((hd_vec_mask)value & ~(hd_vec_mask)(positive <= zero));
}

/* Returns the sum of partial sums, in pairs of halves, which it overwrites. */
HD_ALWAYS float hd_vec_add_lanes(float lanes[HD_VEC])
{
    for (int half = HD_VEC / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* Does one step of a transposition: pairs of rows `step` apart exchange halves of every 2 step
 * floats. */
#define HD_EXCHANGE(step, low, high)                                                               \
    for (int i = 0; i < HD_VEC; i++)                                                               \
        if (!(i & (step))) {                                                                       \
            const hd_vec a = row[i], b = row[i + (step)];                                          \
            row[i] = HD_SHUFFLE(a, b, low);                                                        \
            row[i + (step)] = HD_SHUFFLE(a, b, high);                                              \
        }

/* Transposes 16 x 16 floats. */
HD_ALWAYS void hd_vec_transpose(hd_vec row[HD_VEC])
{
    const hd_vec_mask low1 = {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30};
    const hd_vec_mask high1 = {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31};
    const hd_vec_mask low2 = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
    const hd_vec_mask high2 = {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
    const hd_vec_mask low4 = {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27};
    const hd_vec_mask high4 = {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31};
    const hd_vec_mask low8 = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
    const hd_vec_mask high8 = {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31};
    HD_EXCHANGE(8, low8, high8)
    HD_EXCHANGE(4, low4, high4)
    HD_EXCHANGE(2, low2, high2)
    HD_EXCHANGE(1, low1, high1)
}

/* Calls f(p, rows, vectors), inlined for each of 1 … HD_REG_ROWS rows and 1 … HD_REG_COLUMNS
 * vectors, so that the compiler unrolls the loops over them. */
#define HD_UNROLL(f, p, rows, vectors)                                                             \
    switch ((rows)*8 + (vectors)) {                                                                \
        HD_UNROLL_COLUMNS(f, p, 1)                                                                 \
        HD_UNROLL_COLUMNS(f, p, 2)                                                                 \
        HD_UNROLL_COLUMNS(f, p, 3)                                                                 \
        HD_UNROLL_MORE_ROWS(f, p)                                                                  \
    }
#define HD_UNROLL_COLUMNS(f, p, rows)                                                              \
    HD_UNROLL_ONE(f, p, rows, 1)                                                                   \
    HD_UNROLL_ONE(f, p, rows, 2)                                                                   \
    HD_UNROLL_MORE_COLUMNS(f, p, rows)
#ifdef __AVX__
#define HD_UNROLL_MORE_ROWS(f, p)                                                                  \
    HD_UNROLL_COLUMNS(f, p, 4)                                                                     \
    HD_UNROLL_COLUMNS(f, p, 5)                                                                     \
    HD_UNROLL_COLUMNS(f, p, 6)
#else
#define HD_UNROLL_MORE_ROWS(f, p)
#endif
#if defined __AVX512F__ || !defined __AVX__
#define HD_UNROLL_MORE_COLUMNS(f, p, rows)                                                         \
    HD_UNROLL_ONE(f, p, rows, 3)                                                                   \
    HD_UNROLL_ONE(f, p, rows, 4)
#else
#define HD_UNROLL_MORE_COLUMNS(f, p, rows)
#endif
#define HD_UNROLL_ONE(f, p, rows, vectors)                                                         \
    case (rows)*8 + (vectors):                                                                     \
        f(p, rows, vectors);                                                                       \
        break;
