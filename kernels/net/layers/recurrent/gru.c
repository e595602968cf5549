/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.GRU of one layer (Cho et al. 2014, with the reset gate r behind the product):
 *     r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),  z likewise,
 *     n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h' = (1 - z) n + z h. */
#include "kernels/net/layers/recurrent/recurrent_internal.h"
#include "kernels/net/layers/smooth.h"

/* The gates r, z and n lie one behind another; r and z are open. */
HD_ALWAYS void forward_reg(int64_t i, int64_t count, int64_t n, const struct hd_cell_row *row)
{
    const hd_reg r = hd_reg_load_some(row->gates + i, count);
    const hd_reg z = hd_reg_load_some(row->gates + n + i, count);
    const hd_reg b = hd_reg_load_some(row->products + 2 * n + i, count) +
                     hd_reg_load_some(row->bias_hh + 2 * n + i, count);
    const hd_reg of_x = hd_reg_load_some(row->gates + 2 * n + i, count) +
                        hd_reg_load_some(row->bias_ih + 2 * n + i, count);
    const hd_reg new = hd_reg_tanh(of_x + r * b);
    const hd_reg before = hd_reg_load_some(row->before[0] + i, count);
    hd_reg_store_some(row->gates + 2 * n + i, new, count);
    hd_reg_store_some(row->more + i, b, count);
    hd_reg_store_some(row->after[0] + i, (1 - z) * new + z *before, count);
}

static void forward_row(int64_t n, const struct hd_cell_row *row)
{
    hd_recurrent_open_gates(2 * n, row->bias_ih, row->bias_hh, row->products, row->gates);
    HD_FOR_REGS(n, forward_reg, n, row);
}

static void backward_row(int64_t n, const struct hd_cell_row *row)
{
    const float *restrict r = row->gates, *restrict z = row->gates + n,
                          *restrict new = row->gates + 2 * n;
    const float *restrict b = row->more, *restrict before = row->before[0];
    float *restrict dr = row->dgates, *restrict dz = row->dgates + n,
                    *restrict db = row->dgates + 2 * n;
    float *restrict dnew = row->dapart, *restrict dh = row->dstates[0];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        dz[i] = dh[i] * (before[i] - new[i]) * z[i] * (1 - z[i]);
        dnew[i] = dh[i] * (1 - z[i]) * (1 - new[i] * new[i]);
        dr[i] = dnew[i] * b[i] * r[i] * (1 - r[i]);
        db[i] = dnew[i] * r[i];
        dh[i] *= z[i];
    }
}

static const struct hd_cell cell = {
    .gates = 3, .summed = 2, .forward = forward_row, .backward = backward_row};

const struct hd_layer_type hd_layer_gru = {
    .name = "gru",
    .fields = {{"hidden", 1, 0}},
    .states = 1,
    .cell = &cell,
    .infer = hd_recurrent_infer,
    .list_tensors = hd_recurrent_list_tensors,
    .count_scratch = hd_recurrent_count_scratch,
    .count_kept = hd_recurrent_count_kept,
    .forward = hd_recurrent_forward,
    .backward_data = hd_recurrent_backward_data,
    .backward_weights = hd_recurrent_backward_weights,
};
