/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.LSTM of one layer (Hochreiter and Schmidhuber 1997, with forget gates):
 *     i = sigmoid(W_ii x + b_ii + W_hi h + b_hi),  f and o likewise,  g likewise by tanh,
 *     c' = f c + i g,  h' = o tanh(c').  The state is h, then c. */
#include "kernels/net/layers/recurrent/recurrent_internal.h"
#include "kernels/net/layers/smooth.h"

/* The gates i, f, g and o lie one behind another, of which i, f and o are open here; more is
 * tanh(c'). */
HD_ALWAYS void change_cell(int64_t k, int64_t count, int64_t n, const struct hd_cell_row *row)
{
    const hd_reg bias = hd_reg_load_some(row->bias_ih + 2 * n + k, count) +
                        hd_reg_load_some(row->bias_hh + 2 * n + k, count);
    const hd_reg sum = hd_reg_load_some(row->gates + 2 * n + k, count) +
                       hd_reg_load_some(row->products + 2 * n + k, count);
    const hd_reg g = hd_reg_tanh(sum + bias);
    const hd_reg c =
        hd_reg_load_some(row->gates + n + k, count) * hd_reg_load_some(row->before[1] + k, count) +
        hd_reg_load_some(row->gates + k, count) * g;
    hd_reg_store_some(row->gates + 2 * n + k, g, count);
    hd_reg_store_some(row->after[1] + k, c, count);
}

HD_ALWAYS void yield_state(int64_t k, int64_t count, int64_t n, const struct hd_cell_row *row)
{
    const hd_reg tanh_c = hd_reg_tanh(hd_reg_load_some(row->after[1] + k, count));
    const hd_reg o = hd_reg_load_some(row->gates + 3 * n + k, count);
    hd_reg_store_some(row->more + k, tanh_c, count);
    hd_reg_store_some(row->after[0] + k, o * tanh_c, count);
}

/* Loops of their own for each function: of one loop processors have fewer elements under way. */
static void forward_row(int64_t n, const struct hd_cell_row *row)
{
    hd_recurrent_open_gates(2 * n, row->bias_ih, row->bias_hh, row->products, row->gates);
    hd_recurrent_open_gates(n, row->bias_ih + 3 * n, row->bias_hh + 3 * n, row->products + 3 * n,
                            row->gates + 3 * n);
    HD_FOR_REGS(n, change_cell, n, row);
    HD_FOR_REGS(n, yield_state, n, row);
}

static void backward_row(int64_t n, const struct hd_cell_row *row)
{
    const float *restrict i = row->gates, *restrict f = row->gates + n,
                          *restrict g = row->gates + 2 * n;
    const float *restrict o = row->gates + 3 * n, *restrict tanh_c = row->more;
    const float *restrict before = row->before[1];
    float *restrict di = row->dgates, *restrict df = row->dgates + n,
                    *restrict dg = row->dgates + 2 * n;
    float *restrict d_o = row->dgates + 3 * n, *restrict dh = row->dstates[0],
                    *restrict dc = row->dstates[1];
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        const float by_c = dc[k] + dh[k] * o[k] * (1 - tanh_c[k] * tanh_c[k]);
        di[k] = by_c * g[k] * i[k] * (1 - i[k]);
        df[k] = by_c * before[k] * f[k] * (1 - f[k]);
        dg[k] = by_c * i[k] * (1 - g[k] * g[k]);
        d_o[k] = dh[k] * tanh_c[k] * o[k] * (1 - o[k]);
        dh[k] = 0;
        dc[k] = by_c * f[k];
    }
}

static const struct hd_cell cell = {
    .gates = 4, .summed = 4, .forward = forward_row, .backward = backward_row};

const struct hd_layer_type hd_layer_lstm = {
    .name = "lstm",
    .fields = {{"hidden", 1, 0}},
    .states = 2,
    .cell = &cell,
    .infer = hd_recurrent_infer,
    .list_tensors = hd_recurrent_list_tensors,
    .count_scratch = hd_recurrent_count_scratch,
    .count_kept = hd_recurrent_count_kept,
    .forward = hd_recurrent_forward,
    .backward_data = hd_recurrent_backward_data,
    .backward_weights = hd_recurrent_backward_weights,
};
