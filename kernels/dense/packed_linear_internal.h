/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the passes, and the implementations of the bf16 ones. Thread safe. */
#ifndef HD_KERNELS_DENSE_PACKED_LINEAR_INTERNAL_H
#define HD_KERNELS_DENSE_PACKED_LINEAR_INTERNAL_H

#include "kernels/dense/packed_linear.h"

/* Blocks of inputs that backward passes of many rows compute at a time. */
enum { HD_PACK_GROUP = 4 };

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

extern const struct hd_packed_bf16 hd_packed_portable; /* plain C */
extern const struct hd_packed_bf16
    hd_packed_pairs; /* AVX-512's products of pairs; all NULL in programs built without them */
extern const struct hd_packed_bf16
    hd_packed_amx; /* needs hd_amx_is_ready(); all NULL in programs built without AMX */

#endif
