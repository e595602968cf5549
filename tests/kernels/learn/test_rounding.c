/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding of blocks, against definitions in doubles, whether subnormal numbers are flushed or not:
 * f16 for floats of every kind and back for all halves, int8 for blocks of every scale, with
 * numbers that are not finite, and what bf16 gives back. */
#include "kernels/common/bf16.h"
#include "kernels/learn/rounding.h"
#include "runtime/base/hash.h"
#include "runtime/base/subnormal.h"
#include "tests/harness/check.h"

#include <math.h>
#include <string.h>

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

/* -- f16 --------------------------------------------------------------------------------------- */

/* Returns the value of a half that is no NaN. */
static double get_half(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 0x3FF;
    const double size = exponent == 31  ? (double)INFINITY
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -size : size;
}

/* Returns the half nearest to a float, of two equally near ones the even one. */
static uint16_t find_half(float value)
{
    const double size = fabs((double)value);
    const uint16_t sign = (uint16_t)(get_bits(value) >> 16 & 0x8000);
    if (isnan(value))
        return (uint16_t)(sign | 0x7E00 | (get_bits(value) >> 13 & 0x3FF));
    if (size >= 65520) /* between the largest half and what would be the next */
        return (uint16_t)(sign | 0x7C00);
    const double ulp = size < 0x1p-14 ? 0x1p-24 : ldexp(1, ilogb(size) - 10);
    const double below = floor(size / ulp) * ulp, over = size - below;
    uint16_t half = size < 0x1p-14
                        ? (uint16_t)(below / ulp)
                        : (uint16_t)((ilogb(size) + 15) << 10 | ((int)(below / ulp) & 0x3FF));
    half += over > ulp / 2 || (over == ulp / 2 && half % 2 == 1);
    return (uint16_t)(sign | half);
}

static void check_f16(void)
{
    static const uint32_t lows[] = {0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0xFFFF, 0x7123};
    float from[HD_BLOCK], back[HD_BLOCK];
    uint16_t halves[HD_BLOCK + 1];
    for (uint32_t high = 0; high < 1 << 16; high += 400) { /* lengths of no vector */
        int n = 0;
        for (uint32_t i = high; i < high + 400 && i < 1 << 16; i++)
            for (int j = 0; j < 9; j++)
                from[n++] = make_float(i << 16 | lows[j]);
        halves[n] = 0x1234;
        hd_rounding_f16.encode(from, n, halves);
        for (int i = 0; i < n; i++)
            ck_assert_msg(halves[i] == find_half(from[i]), "%a: found %04x, wanted %04x",
                          (double)from[i], halves[i], find_half(from[i]));
        ck_assert_int_eq(halves[n], 0x1234);
    }
    for (uint32_t first = 0; first < 1 << 16; first += HD_BLOCK - 5) {
        int n = 0;
        for (; n < HD_BLOCK - 5 && first + (uint32_t)n < 1 << 16; n++)
            halves[n] = (uint16_t)(first + (uint32_t)n);
        hd_rounding_f16.decode(halves, n, back);
        for (int i = 0; i < n; i++)
            ck_assert_msg((halves[i] & 0x7FFF) > 0x7C00
                              ? isnan(back[i])
                              : (double)back[i] == get_half(halves[i]) &&
                                    !signbit(back[i]) == (halves[i] < 0x8000),
                          "%04x: found %a", halves[i], (double)back[i]);
    }
}

/* -- int8 -------------------------------------------------------------------------------------- */

static void check_int8_block(const float *from, int n)
{
    char packed[HD_BLOCK + sizeof(float) + 1];
    float back[HD_BLOCK], largest = 0, scale;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        finite &= isfinite(from[i]);
        largest = fmaxf(largest, fabsf(from[i]));
    }
    packed[n + (int)sizeof scale] = 99;
    hd_rounding_int8.encode(from, n, packed);
    hd_rounding_int8.decode(packed, n, back);
    memcpy(&scale, packed, sizeof scale);
    ck_assert_int_eq(packed[n + (int)sizeof scale], 99);
    if (!finite) {
        for (int i = 0; i < n; i++)
            ck_assert(isnan(back[i]));
        return;
    }
    const bool tiny = (double)largest < 127 * 0x1p-126;
    ck_assert(scale == (tiny ? 0 : largest / 127));
    for (int i = 0; i < n; i++) {
        const double wanted = tiny ? 0 : nearbyint((double)(from[i] * (127 / largest)));
        ck_assert_msg((double)back[i] == (double)((float)wanted * scale) && fabs(wanted) <= 127,
                      "%a among %a: found %a, wanted %g times %a", (double)from[i], (double)largest,
                      (double)back[i], wanted, (double)scale);
    }
}

static void check_int8(void)
{
    float from[HD_BLOCK];
    for (int exponent = -149; exponent <= 127; exponent += 3)
        for (int n = 1; n <= HD_BLOCK; n = n * 5 + 2) {
            for (int i = 0; i < n; i++) {
                const uint64_t drawn = hd_hash_mix((uint64_t)exponent, (uint64_t)i);
                from[i] = ldexpf((float)(drawn % 20001) / 10000 - 1, exponent);
            }
            check_int8_block(from, n);
            from[n / 2] = exponent % 2 ? INFINITY : -NAN;
            check_int8_block(from, n);
        }
    const float ties[] = {127, 0.5F, -0.5F, 1.5F, -2.5F, 126.5F, -127, -0.0F, 0};
    check_int8_block(ties, 9);
    check_int8_block(ties + 7, 2);
}

/* -- All --------------------------------------------------------------------------------------- */

/* A NaN in a bf16 and an infinity stay what they are, and what is there already does not change. */
static void check_bf16(void)
{
    const float from[] = {1.5F, NAN, -INFINITY, 3e38F, -0.0F, 1 + 0x1p-8F, 1 + 0x3p-8F};
    const float wanted[] = {1.5F, NAN, -INFINITY, 3e38F, -0.0F, 1, 1 + 0x1p-6F};
    hd_bf16 packed[7];
    float back[7];
    hd_rounding_bf16.encode(from, 7, packed);
    hd_rounding_bf16.decode(packed, 7, back);
    for (int i = 0; i < 7; i++)
        ck_assert(isnan(wanted[i]) ? isnan(back[i])
                                   : fabsf(back[i] - wanted[i]) <= 0x1p-9F * fabsf(wanted[i]) ||
                                         back[i] == wanted[i]);
    ck_assert(back[5] == 1 && back[6] == 1 + 0x1p-6F && signbit(back[4]));
}

TEST(test_rounding, .runs = 2)
{
    if (_i == 1)
        hd_subnormals_flush();
    check_bf16();
    check_f16();
    check_int8();
}

TEST(test_names)
{
    ck_assert_ptr_eq(hd_rounding_find("bf16"), &hd_rounding_bf16);
    ck_assert_ptr_eq(hd_rounding_find("f16"), &hd_rounding_f16);
    ck_assert_ptr_eq(hd_rounding_find("int8"), &hd_rounding_int8);
    ck_assert_ptr_eq(hd_rounding_find("f32"), NULL);
    ck_assert_int_eq(hd_rounding_get_bytes(&hd_rounding_int8, HD_BLOCK), 4100);
}
