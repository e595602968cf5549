/* SPDX-License-Identifier: Apache-2.0 */
/* Products of pairs of bf16 numbers: sum[i] += a[0] b[i][0] + a[1] b[i][1], i < HD_REG, with sums
 * in float. How AVX-512's rounds between the two products is the processor's own choice, the same
 * in every call; elsewhere they are two fused multiply-adds, in files compiled with contraction.
 * Thread safe. */
#pragma once

#include "kernels/common/vector.h"

#ifdef __AVX512BF16__
#define HD_PAIRS 1

#include <immintrin.h>

/* Adds one pair of the summed index to rows x vectors sums: pairs a + r * row, and HD_REG pairs
 * from b + v * vector on. Both loops unroll, so that the sums stay in registers. */
#define HD_PAIRS_ADD(sum, a, row, b, vector, rows, vectors)                                        \
    do {                                                                                           \
        __m512bh b_[HD_REG_COLUMNS];                                                               \
        for (int v_ = 0; v_ < (vectors); v_++)                                                     \
            b_[v_] = (__m512bh)_mm512_loadu_si512((b) + v_ * (vector));                            \
        for (int r_ = 0; r_ < (rows); r_++) {                                                      \
            const __m512bh a_ = hd_pairs_spread((a) + r_ * (row));                                 \
            for (int v_ = 0; v_ < (vectors); v_++)                                                 \
                (sum)[r_][v_] = (hd_reg)_mm512_dpbf16_ps((__m512)(sum)[r_][v_], a_, b_[v_]);       \
        }                                                                                          \
    } while (0)

/* Repeats one pair 16 times. */
HD_ALWAYS __m512bh hd_pairs_spread(const hd_bf16 *pair)
{
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

/* Returns 16 pairs of two rows; `second` may be NULL for zeros. */
HD_ALWAYS __m512i hd_pairs_make(const hd_bf16 *first, const hd_bf16 *second)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)first));
    if (!second)
        return low;
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)second));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Stores 16 pairs of two rows; `second` may be NULL for zeros. */
HD_ALWAYS void hd_pairs_store(hd_bf16 *to, const hd_bf16 *first, const hd_bf16 *second)
{
    _mm512_storeu_si512(to, hd_pairs_make(first, second));
}

#else

/* Stores 16 pairs of two rows; `second` may be NULL for zeros. */
HD_ALWAYS void hd_pairs_store(hd_bf16 *to, const hd_bf16 *first, const hd_bf16 *second)
{
    for (int i = 0; i < HD_VEC; i++) {
        to[2 * i] = first[i];
        to[2 * i + 1] = second ? second[i] : 0;
    }
}

typedef uint32_t hd_pairs_bits __attribute__((vector_size(4 * HD_REG), aligned(2)));

#define HD_PAIRS_ADD(sum, a, row, b, vector, rows, vectors)                                        \
    do {                                                                                           \
        hd_reg first_[HD_REG_COLUMNS], second_[HD_REG_COLUMNS];                                    \
        for (int v_ = 0; v_ < (vectors); v_++) {                                                   \
            const hd_pairs_bits bits_ = *(const hd_pairs_bits *)((b) + v_ * (vector));             \
            first_[v_] = (hd_reg)(bits_ << 16);                                                    \
            second_[v_] = (hd_reg)(bits_ & 0xffff0000u);                                           \
        }                                                                                          \
        for (int r_ = 0; r_ < (rows); r_++) {                                                      \
            const float one_ = hd_bf16_to_float((a)[r_ * (row)]);                                  \
            const float two_ = hd_bf16_to_float((a)[r_ * (row) + 1]);                              \
            for (int v_ = 0; v_ < (vectors); v_++) {                                               \
                (sum)[r_][v_] += one_ * first_[v_];                                                \
                (sum)[r_][v_] += two_ * second_[v_];                                               \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#endif
