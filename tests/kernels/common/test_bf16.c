/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to bf16: floats of every kind, all upper halves with lower halves around a tie. */
#include "kernels/common/bf16.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

enum { LOWS = 7, N = (1 << 16) * LOWS + 5 /* not a multiple of any vector's length */ };

static const float *all_kinds(void)
{
    static const uint32_t lows[LOWS] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234};
    uint32_t *bits = test_alloc(N, sizeof *bits);
    for (uint32_t i = 0; i < N; i++)
        bits[i] = i / LOWS << 16 | lows[i % LOWS];
    return (const float *)bits;
}

/* Returns the nearer neighbour in double, or of two equally near ones the even one. */
static uint16_t rounded(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000), below = (uint16_t)(bits >> 16 & 0x7FFF);
    if (isnan(value))
        return (uint16_t)(sign | below | 0x40);
    if (isinf(value))
        return (uint16_t)(sign | 0x7F80);
    if (fabs((double)value) < 0x1p-126)
        return sign;
    const double ulp = ldexp(1, ilogb(value) - 7), low = trunc(fabs((double)value) / ulp) * ulp;
    const double over = fabs((double)value) - low;
    const bool up = over > ulp / 2 || (over == ulp / 2 && below % 2 == 1);
    return (uint16_t)(sign | (below + up));
}

static void check(const hd_bf16 *found, const float *from)
{
    for (int i = 0; i < N; i++)
        ck_assert_msg(found[i] == rounded(from[i]), "%a: found %04x, wanted %04x", (double)from[i],
                      found[i], rounded(from[i]));
}

TEST(test_round)
{
    const float *from = all_kinds();
    hd_bf16 *to = test_alloc(N, sizeof *to);
    hd_bf16_round(from, N, to);
    check(to, from);
}

#if HD_CUDA
TEST(test_round_cuda, .cuda = true)
{
    const float *from = all_kinds();
    hd_bf16 *to = test_alloc(N + 1, sizeof *to);
    const float *from_there = device_make(from, N * (int64_t)sizeof *from);
    hd_bf16 *there = device_make(NULL, (N + 1) * (int64_t)sizeof *there);
    ck_assert_int_eq(hd_bf16_round_cuda(from_there, N, there, device_stream()), HD_OK);
    device_get(to, there, (N + 1) * (int64_t)sizeof *to);
    check(to, from);
    ck_assert_int_eq(to[N], 0xFFFF);
}
#endif
