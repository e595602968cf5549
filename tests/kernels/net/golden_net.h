/* SPDX-License-Identifier: Apache-2.0 */
/* The deterministic fill of nets (docs/di-engine.md 9.1), and comparisons of tensors with their
 * recorded norm, sum and first elements. One thread at a time. */
#pragma once

#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tests/golden/golden.h"
#include "tests/kernels/common/check_close.h"

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

/* Checks norm, sum and first elements of data[n], relative to the norm. */
static inline void check_tensor(const float *data, int64_t n, struct golden tensor,
                                double tolerance, const char *what)
{
    const double l2 = golden_number(tensor, "l2");
    double squares = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (double)data[i] * data[i];
        total += data[i];
    }
    CHECK_CLOSE(sqrt(squares), l2, l2, tolerance, what);
    CHECK_CLOSE(total, golden_number(tensor, "sum"), l2 * sqrt((double)n), tolerance, what);
    ck_assert_int_eq(golden_count(tensor, "first"), n < 4 ? n : 4);
    for (int i = 0; i < 4 && i < n; i++)
        CHECK_CLOSE(data[i], golden_number(tensor, "first/%d", i), l2, tolerance, what);
}

/* Checks all tensors of a net's parameters, or of their gradient, with the list of.key. */
static inline void check_tensors(const struct hd_net *net, const float *flat, struct golden of,
                                 const char *key, double tolerance)
{
    ck_assert_int_eq(hd_net_count_tensors(net), golden_count(of, "%s", key));
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *row_major = hd_alloc(tensor->count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(net, flat, t, row_major), HD_OK);
        check_tensor(row_major, tensor->count, golden_get(of, "%s/%d", key, t), tolerance,
                     tensor->name);
        hd_free(row_major);
    }
}
