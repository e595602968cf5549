/* SPDX-License-Identifier: Apache-2.0 */
/* The deterministic fill of the golden numbers (docs/di-engine.md 9.1), and comparisons of tensors
 * with their recorded norm, sum and first elements. One thread at a time. */
#ifndef HD_TESTS_KERNELS_NET_GOLDEN_NET_H
#define HD_TESTS_KERNELS_NET_GOLDEN_NET_H

#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"

static inline double fill(uint64_t k, uint64_t j)
{
    uint64_t z = (k << 32) + j + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 40) / 16777216.0;
}

/* Tensor t is filled with k = first + t. */
static inline void fill_params(const struct hd_net *net, uint64_t first, void *params)
{
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *row_major = hd_alloc(tensor->count, sizeof *row_major);
        for (int64_t j = 0; j < tensor->count; j++)
            row_major[j] = (float)((2 * fill(first + (uint64_t)t, (uint64_t)j) - 1) /
                                   sqrt((double)tensor->fan_in));
        ck_assert_int_eq(hd_net_import_tensor(net, row_major, t, params), HD_OK);
        hd_free(row_major);
    }
    hd_net_refresh(net, params, 0, hd_net_count_params(net));
}

/* Checks norm and sum of data[n] times scale, and its first elements, relative to the norm. */
static inline void check_tensor(const float *data, int64_t n, double scale, double l2, double sum,
                                const double *first, int n_first, double tolerance,
                                const char *what)
{
    double squares = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (double)data[i] * scale * data[i] * scale;
        total += data[i] * scale;
    }
    CHECK_CLOSE(sqrt(squares), l2, l2, tolerance, what);
    CHECK_CLOSE(total, sum, l2 * sqrt((double)n), tolerance, what);
    for (int i = 0; i < n_first; i++)
        CHECK_CLOSE(data[i] * scale, first[i], l2, tolerance, what);
}

#endif
