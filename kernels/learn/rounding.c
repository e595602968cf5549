/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/rounding.h"

#include "kernels/common/bf16.h"
#include "runtime/base/hash.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

enum { ABSOLUTE = 0x7FFFFFFF, INFINITE = 0x7F800000 };

static uint32_t get_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float make_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* -- bf16 -------------------------------------------------------------------------------------- */

static void encode_bf16(const float *from, int64_t n, void *to)
{
    hd_bf16_round(from, n, to);
}

static void decode_bf16(const void *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = hd_bf16_to_float(((const hd_bf16 *)from)[i]);
}

/* -- f16 --------------------------------------------------------------------------------------- */

/* A normal number keeps its exponent, less the difference of the biases, and the upper 10 bits of
 * its fraction; the rest decides about rounding, which may carry into the exponent. Below 2^-14 a
 * number is a multiple of 2^-24, which the addition of 0.5 brings to the lowest bits. */
static uint16_t half_from_float(float value)
{
    enum { BIASES = (127 - 15) << 23, LARGEST = (127 + 16) << 23, SMALLEST = (127 - 14) << 23 };
    const uint32_t bits = get_bits(value), magnitude = bits & ABSOLUTE;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > INFINITE)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
    if (magnitude >= LARGEST)
        return (uint16_t)(sign | 0x7C00);
    if (magnitude < SMALLEST)
        return (uint16_t)(sign | (get_bits(make_float(magnitude) + 0.5F) - get_bits(0.5F)));
    return (uint16_t)(sign | ((magnitude - BIASES + 0xFFF + (magnitude >> 13 & 1)) >> 13));
}

static float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7FFF;
    if (magnitude > 0x7C00) /* the processor's conversion makes a NaN quiet */
        return make_float(sign | INFINITE | 0x400000 | magnitude << 13);
    if (magnitude == 0x7C00)
        return make_float(sign | INFINITE);
    if (magnitude < 0x400) /* exact */
        return make_float(sign | get_bits((float)magnitude * 0x1p-24F));
    return make_float(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

static void encode_f16(const float *from, int64_t n, void *to)
{
    uint16_t *halves = to;
    int64_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(halves + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(halves + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        halves[i] = half_from_float(from[i]);
}

static void decode_f16(const void *from, int64_t n, float *to)
{
    const uint16_t *halves = from;
    int64_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(to + i,
                         _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(halves + i))));
#elif defined __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(halves + i))));
#endif
    for (; i < n; i++)
        to[i] = half_to_float(halves[i]);
}

/* -- int8 -------------------------------------------------------------------------------------- */
/* The scale stands before the integers. The loops are plain C that the compiler vectorises. */

/* Returns the scale of a block and by what its elements are multiplied: NaN and 0 if one of them is
 * not finite, 0 and 0 if all are too small. Magnitudes compare as the integers of their bits do. */
static float find_scale(const float *from, int64_t n, float *factor_p)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t magnitude = (int32_t)(get_bits(from[i]) & ABSOLUTE);
        most = magnitude > most ? magnitude : most;
    }
    const float largest = make_float((uint32_t)most);
    *factor_p = 0;
    if (most >= INFINITE)
        return NAN;
    if (largest < 127 * 0x1p-126F)
        return 0;
    *factor_p = 127 / largest;
    return largest / 127;
}

/* The addition of 1.5 * 2^23 rounds a number to an integer, which is then in the lowest bits. */
static void encode_int8(const float *from, int64_t n, void *to)
{
    float factor;
    const float scale = find_scale(from, n, &factor);
    int8_t *integers = (int8_t *)to + sizeof scale;
    memcpy(to, &scale, sizeof scale);
    if (factor == 0)
        memset(integers, 0, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            integers[i] = (int8_t)get_bits(from[i] * factor + 0x1.8p23F);
}

static void decode_int8(const void *from, int64_t n, float *to)
{
    float scale;
    memcpy(&scale, from, sizeof scale);
    const int8_t *integers = (const int8_t *)from + sizeof scale;
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)integers[i] * scale;
}

/* ---------------------------------------------------------------------------------------------- */

const struct hd_rounding hd_rounding_bf16 = {"bf16", sizeof(hd_bf16), 0, encode_bf16, decode_bf16};
const struct hd_rounding hd_rounding_f16 = {"f16", sizeof(uint16_t), 0, encode_f16, decode_f16};
const struct hd_rounding hd_rounding_int8 = {"int8", sizeof(int8_t), sizeof(float), encode_int8,
                                             decode_int8};

const struct hd_rounding *hd_rounding_find(const char *name)
{
    static const struct hd_rounding *const all[] = {&hd_rounding_bf16, &hd_rounding_f16,
                                                    &hd_rounding_int8};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, all[i]->name) == 0)
            return all[i];
    return NULL;
}
