/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the passes, and the implementations of the bf16 ones. Thread safe. */
#ifndef HD_KERNELS_DENSE_PACKED_LINEAR_INTERNAL_H
#define HD_KERNELS_DENSE_PACKED_LINEAR_INTERNAL_H

#include "kernels/common/vector.h"
#include "kernels/dense/packed_linear.h"

/* Blocks of inputs that backward passes of many rows compute at a time. */
enum { HD_PACK_GROUP = 4 };

/* Stores the first `inputs` of a row of a block of dx, with 0 where the mask is not positive. */
HD_ALWAYS void hd_packed_store_row(const hd_bf16 row[HD_PACK_IN], int64_t inputs,
                                   const hd_bf16 *mask, hd_bf16 *dx)
{
    hd_bf16 passed[HD_PACK_IN];
    if (inputs < HD_PACK_IN) {
        for (int64_t i = 0; i < inputs; i++)
            dx[i] = !mask || (int16_t)mask[i] > 0 ? row[i] : 0;
        return;
    }
    for (int i = 0; i < HD_PACK_IN && mask; i++)
        passed[i] = (int16_t)mask[i] > 0 ? row[i] : 0;
    memcpy(dx, mask ? passed : row, sizeof passed);
}

struct hd_packed_bf16 {
    void (*forward)(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                    const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy);
    void (*backward_data)(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                          const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                          const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch);
    void (*backward_weights)(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                             int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                             int64_t last, float *dw, void *scratch);
};

extern const struct hd_packed_bf16 hd_packed_pairs; /* products of pairs, on all processors */
extern const struct hd_packed_bf16
    hd_packed_amx; /* needs hd_amx_is_ready(); all NULL in programs built without AMX */

#endif
