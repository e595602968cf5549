/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/bf16.h"

#ifdef __AVX512BF16__
#include <immintrin.h>

static inline __m512i two_rows(const float *low, const float *high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(high), _mm512_loadu_ps(low));
}

void hd_bf16_round(const float *from, int64_t n, hd_bf16 *to)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(to + i, two_rows(from + i, from + i + 16));
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(to + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
    for (; i < n; i++)
        to[i] = hd_bf16_from_float(from[i]);
}

void hd_bf16_pair(const float *even, const float *odd, hd_bf16 *to)
{
    /* Word i of the low half and word i of the high half become words 2 i and 2 i + 1. */
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i order =
        _mm512_or_epi32(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, two_rows(even, odd)));
}

#else

void hd_bf16_round(const float *from, int64_t n, hd_bf16 *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = hd_bf16_from_float(from[i]);
}

void hd_bf16_pair(const float *even, const float *odd, hd_bf16 *to)
{
    for (int i = 0; i < 16; i++) {
        to[2 * i] = hd_bf16_from_float(even[i]);
        to[2 * i + 1] = hd_bf16_from_float(odd[i]);
    }
}

#endif
