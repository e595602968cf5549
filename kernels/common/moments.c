/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/moments.h"

#include <string.h>

void hd_statistics_of(const float *x, int64_t rows, int64_t n, struct hd_statistics of)
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

void hd_statistics_bytes_add(const uint8_t *restrict x, int64_t n, uint32_t *restrict sum,
                             uint32_t *restrict square)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += x[j];
        square[j] += (uint32_t)x[j] * x[j];
    }
}

void hd_statistics_bytes(const uint32_t *sum, const uint32_t *square, int64_t rows, int64_t n,
                         struct hd_statistics of)
{
    *of.count = (double)rows;
    for (int64_t j = 0; j < n; j++)
        hd_statistics_byte(sum[j], square[j], rows, of.mean + j, of.squares + j);
}

void hd_statistics_merge(struct hd_statistics into, struct hd_statistics other, int64_t n)
{
    const double count = *into.count + *other.count;
    if (*other.count == 0)
        return;
    const double share = *other.count / count, both = *into.count * share;
    for (int64_t j = 0; j < n; j++)
        hd_statistics_merge_one(into.mean + j, into.squares + j, other.mean[j], other.squares[j],
                                share, both);
    *into.count = count;
}
