/* SPDX-License-Identifier: Apache-2.0 */
/* The passes that gru and lstm share; they differ in a cell's arithmetic. All arrays have a row for
 * each row of the input, that is for each step of each sequence, so that products take inputs,
 * outputs and most weights as they are. The product with the inputs is one for all steps; that with
 * the state goes step by step over all sequences. Thread safe on different memory. */
#ifndef HD_KERNELS_NET_LAYERS_RECURRENT_INTERNAL_H
#define HD_KERNELS_NET_LAYERS_RECURRENT_INTERNAL_H

#include "kernels/common/vector.h"
#include "kernels/net/layers/layer.h"

enum { HD_CELL_STATES = 2 };

/* One step of one sequence. */
struct hd_cell_row {
    /* [gates hidden], without biases: W_ih x + W_hh h of the cell's first `summed` gates and W_ih x
     * of the last one, if that is apart. [hidden]: W_hh h of that gate. In their place a cell
     * leaves what it needs backward. */
    float *gates, *apart;
    const float *bias_ih, *bias_hh;
    const float *before[HD_CELL_STATES]; /* [hidden]: states before the step */
    float *after[HD_CELL_STATES];        /* [hidden]: written forward */
    /* Backward: derivatives by the states after the step, in whose place a cell writes those by the
     * states before it as far as they do not go through W_hh; and written by W_hh h of all gates,
     * and by W_ih x of the gate apart. */
    float *dstates[HD_CELL_STATES];
    float *dgates, *dapart;
};

struct hd_cell {
    int gates, summed; /* summed: gates or gates - 1 */
    void (*forward)(int64_t hidden, const struct hd_cell_row *row);
    void (*backward)(int64_t hidden, const struct hd_cell_row *row);
};

/* Computes the sigmoid of n sums of gates with both biases, in their place. */
void hd_recurrent_open_gates(int64_t n, const float *bias_ih, const float *bias_hh, float *gates);

/* Do what the operations of a layer type do (kernels/net/layers/layer.h), with the type's cell.
 * hd_recurrent_list_tensors returns the number of tensors; there are no errors. */
bool hd_recurrent_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE]);
int hd_recurrent_list_tensors(const struct hd_layer *layer,
                              struct hd_tensor tensors[HD_LAYER_TENSORS]);
int64_t hd_recurrent_count_scratch(const struct hd_layer *layer, int64_t rows);
int64_t hd_recurrent_count_kept(const struct hd_layer *layer, int64_t rows, int64_t steps);
void hd_recurrent_forward(const struct hd_layer_run *run);
void hd_recurrent_backward_data(const struct hd_layer_run *run);
void hd_recurrent_backward_weights(const struct hd_layer_run *run);

#endif
