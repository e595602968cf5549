/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/amx.h"
#include "kernels/dense/packed_linear_internal.h"

enum { BLOCK = HD_PACK_BLOCK, IN = HD_PACK_IN, OUT = HD_PACK_OUT };

/* Returns the weight of (output o, input i) of a block of the shadow, in which pairs of inputs lie
 * together. */
static inline float weight(const hd_bf16 *block, int64_t o, int64_t i)
{
    return hd_bf16_to_float(block[(i / 2 * OUT + o) * 2 + i % 2]);
}

static void forward(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                    const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t b = 0; b < out_blocks; b++)
            for (int64_t o = 0; o < OUT; o++) {
                float sum = 0;
                for (int64_t i = 0; i < p->in; i++)
                    sum += weight(shadow + (i / IN * out_blocks + b) * BLOCK, o, i % IN) *
                           hd_bf16_to_float(x[r * ldx + i]);
                y[r * ldy + b * OUT + o] = sum + bias[b * OUT + o];
            }
}

static void backward_data(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                          const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                          const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p);
    (void)scratch;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = first * IN; i < last * IN && i < p->in; i++) {
            float sum = 0;
            for (int64_t o = 0; o < p->out; o++)
                sum += weight(shadow + (i / IN * out_blocks + o / OUT) * BLOCK, o % OUT, i % IN) *
                       hd_bf16_to_float(dy[r * lddy + o]);
            bool passes = !mask || (int16_t)mask[r * lddx + i] > 0;
            dx[r * lddx + i] = passes ? hd_bf16_from_float(sum) : 0;
        }
}

static void backward_weights(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                             int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                             int64_t last, float *dw, void *scratch)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p);
    (void)scratch;
    for (int64_t b = first; b < last; b++)
        for (int64_t o = 0; o < out_blocks * OUT; o++)
            for (int64_t i = 0; i < IN; i++) {
                float sum = 0;
                for (int64_t r = 0; r < rows && b * IN + i < p->in; r++)
                    sum += hd_bf16_to_float(dy[r * lddy + o]) *
                           hd_bf16_to_float(x[r * ldx + b * IN + i]);
                dw[(b * out_blocks + o / OUT) * BLOCK + i * OUT + o % OUT] = sum;
            }
}

const struct hd_packed_bf16 hd_packed_portable = {forward, backward_data, backward_weights};

/* -- Choice of implementation ------------------------------------------------------------------ */

static const struct hd_packed_bf16 *best(void)
{
    return hd_amx_is_ready() ? &hd_packed_amx : &hd_packed_portable;
}

void hd_packed_forward_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                            const float *bias, const hd_bf16 *x, int64_t ldx, float *y, int64_t ldy)
{
    best()->forward(p, rows, shadow, bias, x, ldx, y, ldy);
}

void hd_packed_backward_data_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *shadow,
                                  const hd_bf16 *dy, int64_t lddy, int64_t first, int64_t last,
                                  const hd_bf16 *mask, hd_bf16 *dx, int64_t lddx, void *scratch)
{
    best()->backward_data(p, rows, shadow, dy, lddy, first, last, mask, dx, lddx, scratch);
}

void hd_packed_backward_weights_bf16(const struct hd_packed *p, int64_t rows, const hd_bf16 *dy,
                                     int64_t lddy, const hd_bf16 *x, int64_t ldx, int64_t first,
                                     int64_t last, float *dw, void *scratch)
{
    best()->backward_weights(p, rows, dy, lddy, x, ldx, first, last, dw, scratch);
}
