/* SPDX-License-Identifier: Apache-2.0 */
/* Wide dense layers on small batches, where the weights are nearly all of the bytes: each pass
 * reads or writes them once, in the order of memory. Weights are blocks of HD_PACK_IN inputs by
 * HD_PACK_OUT outputs, [in / 32][out / 16][32][16], padded with zeros, so that contiguous ranges of
 * inputs are contiguous ranges of weights, and bf16 shadow weights (hd_shadow_refresh without a
 * table) have the same order. Activations are rows, one per observation, ld elements apart. Every
 * result is one chain over the summed index in increasing order, in bf16 a link for every number or
 * for every pair of them (or more), as the processor can: its bits depend neither on the number of
 * rows nor on how ranges are cut. Thread safe; no allocation; no two pointers of a call overlap. */
#pragma once

#include "kernels/common/bf16.h"

#include <stdbool.h>
#include <stdint.h>

enum { HD_PACK_IN = 32, HD_PACK_OUT = 16, HD_PACK_BLOCK = HD_PACK_IN * HD_PACK_OUT };

struct hd_packed {
    int64_t in, out; /* without padding */
};

static inline int64_t hd_packed_count_in_blocks(const struct hd_packed *p)
{
    return (p->in + HD_PACK_IN - 1) / HD_PACK_IN;
}

static inline int64_t hd_packed_count_out_blocks(const struct hd_packed *p)
{
    return (p->out + HD_PACK_OUT - 1) / HD_PACK_OUT;
}

/* Return the number of weights including padding, of outputs of a row, and of blocks in either
 * direction. */
static inline int64_t hd_packed_count_weights(const struct hd_packed *p)
{
    return hd_packed_count_in_blocks(p) * hd_packed_count_out_blocks(p) * HD_PACK_BLOCK;
}

static inline int64_t hd_packed_count_outputs(const struct hd_packed *p)
{
    return hd_packed_count_out_blocks(p) * HD_PACK_OUT;
}

/* Returns the index of the weight of (output o, input i). */
static inline int64_t hd_packed_get_index(const struct hd_packed *p, int64_t o, int64_t i)
{
    return (i / HD_PACK_IN * hd_packed_count_out_blocks(p) + o / HD_PACK_OUT) * HD_PACK_BLOCK +
           i % HD_PACK_IN * HD_PACK_OUT + o % HD_PACK_OUT;
}

/* Computes y[r][o] = sum_i w[o][i] x[r][i] + bias[o], for all hd_packed_count_outputs(p) <= ldy
 * outputs: w and bias are zero for outputs that are padding. */
void hd_packed_forward(const struct hd_packed *p, int64_t rows, const float *w, const float *bias,
                       const float *x, int64_t ldx, float *y, int64_t ldy);

/* Computes dx[r][i] = sum_o dy[r][o] w[o][i] for inputs i of blocks [first, last), with 0 where
 * mask is not positive; mask may be NULL, and its rows are as far apart as dx's. `scratch` has
 * hd_packed_get_scratch_bytes bytes, 64-byte aligned. */
void hd_packed_backward_data(const struct hd_packed *p, int64_t rows, const float *w,
                             const float *dy, int64_t lddy, int64_t first, int64_t last,
                             const float *mask, float *dx, int64_t lddx, void *scratch);

/* Computes dw[o][i] = sum_r dy[r][o] x[r][i] for inputs i of blocks [first, last); dw is the start
 * of all weights, 64-byte aligned. Padding becomes zero; dy is zero for outputs that are
 * padding. */
void hd_packed_backward_weights(const struct hd_packed *p, int64_t rows, const float *dy,
                                int64_t lddy, const float *x, int64_t ldx, int64_t first,
                                int64_t last, float *dw, void *scratch);

/* Returns the bytes of scratch of all passes over `rows` rows, including those in bf16. */
int64_t hd_packed_get_scratch_bytes(const struct hd_packed *p, int64_t rows);

/* The bf16 passes compute likewise from bf16 activations and shadow weights, with sums in float.
 * ldx and lddy are multiples of HD_PACK_IN, and elements from `in` (`out`) up to the next multiple
 * are zero. */
void hd_packed_forward_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                            const float *bias, const hd_bf16 *x, int64_t ldx, float *y,
                            int64_t ldy);
void hd_packed_backward_data_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                                  const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                                  const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch);
void hd_packed_backward_weights_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                                     int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                                     int64_t last, float *dw, void *scratch);
