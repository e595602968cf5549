/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/moments.h"

#include <string.h>

void hd_moments_compute(const float *x, int64_t rows, int64_t n, struct hd_moments of)
{
    *of.count = (double)rows;
    memset(of.mean, 0, (size_t)n * sizeof *of.mean);
    memset(of.squares, 0, (size_t)n * sizeof *of.squares);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            of.mean[j] += x[i * n + j];
    for (int64_t j = 0; j < n && rows > 0; j++)
        of.mean[j] /= (double)rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const double off = x[i * n + j] - of.mean[j];
            of.squares[j] += off * off;
        }
}

void hd_moments_add_bytes(const uint8_t *restrict x, int64_t n, uint32_t *restrict sum,
                          uint32_t *restrict square)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += x[j];
        square[j] += (uint32_t)x[j] * x[j];
    }
}

void hd_moments_finish_bytes(const uint32_t *sum, const uint32_t *square, int64_t rows, int64_t n,
                             struct hd_moments of)
{
    *of.count = (double)rows;
    for (int64_t j = 0; j < n; j++)
        hd_moments_finish_byte(sum[j], square[j], rows, of.mean + j, of.squares + j);
}

void hd_moments_merge(struct hd_moments into, struct hd_moments other, int64_t n)
{
    const double count = *into.count + *other.count;
    if (*other.count == 0)
        return;
    const double share = *other.count / count, both = *into.count * share;
    for (int64_t j = 0; j < n; j++)
        hd_moments_merge_one(into.mean + j, into.squares + j, other.mean[j], other.squares[j],
                             share, both);
    *into.count = count;
}
