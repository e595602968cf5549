/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.GRU of one layer (Cho et al. 2014, with the reset gate r behind the product):
 *     r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),  z likewise,
 *     n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h' = (1 - z) n + z h. */
#include "kernels/net/layers/recurrent_internal.h"

/* The gates r, z and n lie one behind another. */
static void forward_step(const struct hd_cell_step *step)
{
    const int64_t gate = step->hidden * step->ld;
    for (int64_t i = 0; i < step->hidden; i++)
        for (int64_t at = i * step->ld; at < i * step->ld + step->columns; at++) {
            float *a = step->a + at;
            const float *b = step->b + at;
            const float r = hd_cell_sigmoid(a[0] + b[0]);
            const float z = hd_cell_sigmoid(a[gate] + b[gate]);
            const float n = tanhf(a[2 * gate] + r * b[2 * gate]);
            a[0] = r;
            a[gate] = z;
            a[2 * gate] = n;
            step->after[0][at] = (1 - z) * n + z * step->before[0][at];
        }
}

static void backward_step(const struct hd_cell_step *step)
{
    const int64_t gate = step->hidden * step->ld;
    for (int64_t i = 0; i < step->hidden; i++)
        for (int64_t at = i * step->ld; at < i * step->ld + step->columns; at++) {
            const float r = step->a[at], z = step->a[gate + at], n = step->a[2 * gate + at];
            const float dh = step->dafter[0][at];
            const float dz = dh * (step->before[0][at] - n) * z * (1 - z);
            const float dn = dh * (1 - z) * (1 - n * n);
            const float dr = dn * step->b[2 * gate + at] * r * (1 - r);
            step->da[at] = step->db[at] = dr;
            step->da[gate + at] = step->db[gate + at] = dz;
            step->da[2 * gate + at] = dn;
            step->db[2 * gate + at] = dn * r;
            step->dbefore[0][at] = dh * z;
        }
}

static const struct hd_cell cell = {.gates = 3, .forward = forward_step, .backward = backward_step};

const struct hd_layer_type hd_layer_gru = {
    .name = "gru",
    .fields = {{"hidden", 1, 0}},
    .states = 1,
    .cell = &cell,
    .infer = hd_recurrent_infer,
    .list_tensors = hd_recurrent_list_tensors,
    .count_kept = hd_recurrent_count_kept,
    .forward = hd_recurrent_forward,
    .backward_data = hd_recurrent_backward_data,
    .backward_weights = hd_recurrent_backward_weights,
};
