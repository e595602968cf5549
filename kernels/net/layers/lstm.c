/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.LSTM of one layer (Hochreiter and Schmidhuber 1997, with forget gates):
 *     i = sigmoid(W_ii x + b_ii + W_hi h + b_hi),  f and o likewise,  g likewise by tanh,
 *     c' = f c + i g,  h' = o tanh(c').  The state is h, then c. */
#include "kernels/net/layers/recurrent_internal.h"

/* The cell's tanh takes the place of the first gate's b. */
static void forward_step(const struct hd_cell_step *step)
{
    const int64_t gate = step->hidden * step->ld;
    for (int64_t k = 0; k < step->hidden; k++)
        for (int64_t at = k * step->ld; at < k * step->ld + step->columns; at++) {
            float *a = step->a + at, *b = step->b + at;
            const float i = hd_cell_sigmoid(a[0] + b[0]);
            const float f = hd_cell_sigmoid(a[gate] + b[gate]);
            const float g = tanhf(a[2 * gate] + b[2 * gate]);
            const float o = hd_cell_sigmoid(a[3 * gate] + b[3 * gate]);
            const float c = f * step->before[1][at] + i * g;
            a[0] = i;
            a[gate] = f;
            a[2 * gate] = g;
            a[3 * gate] = o;
            b[0] = tanhf(c);
            step->after[0][at] = o * b[0];
            step->after[1][at] = c;
        }
}

static void backward_step(const struct hd_cell_step *step)
{
    const int64_t gate = step->hidden * step->ld;
    for (int64_t k = 0; k < step->hidden; k++)
        for (int64_t at = k * step->ld; at < k * step->ld + step->columns; at++) {
            const float *a = step->a + at;
            const float i = a[0], f = a[gate], g = a[2 * gate], o = a[3 * gate];
            const float tanh_c = step->b[at], dh = step->dafter[0][at];
            const float dc = step->dafter[1][at] + dh * o * (1 - tanh_c * tanh_c);
            const float d[] = {dc * g * i * (1 - i), dc * step->before[1][at] * f * (1 - f),
                               dc * i * (1 - g * g), dh * tanh_c * o * (1 - o)};
            for (int j = 0; j < 4; j++)
                step->da[j * gate + at] = step->db[j * gate + at] = d[j];
            step->dbefore[0][at] = 0;
            step->dbefore[1][at] = dc * f;
        }
}

static const struct hd_cell cell = {.gates = 4, .forward = forward_step, .backward = backward_step};

const struct hd_layer_type hd_layer_lstm = {
    .name = "lstm",
    .fields = {{"hidden", 1, 0}},
    .states = 2,
    .cell = &cell,
    .infer = hd_recurrent_infer,
    .list_tensors = hd_recurrent_list_tensors,
    .count_kept = hd_recurrent_count_kept,
    .forward = hd_recurrent_forward,
    .backward_data = hd_recurrent_backward_data,
    .backward_weights = hd_recurrent_backward_weights,
};
