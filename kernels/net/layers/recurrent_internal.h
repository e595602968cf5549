/* SPDX-License-Identifier: Apache-2.0 */
/* The passes that gru and lstm share; they differ in a cell's arithmetic. The product with the
 * inputs is one for all steps; that with the state goes step by step over all sequences. Arrays
 * are feature-major: in array X[features][columns] column t ld + s belongs to step t of sequence s,
 * where ld is the next multiple of HD_LANES of their number. Thread safe on different memory. */
#ifndef HD_KERNELS_NET_LAYERS_RECURRENT_INTERNAL_H
#define HD_KERNELS_NET_LAYERS_RECURRENT_INTERNAL_H

#include "kernels/net/layers/layer.h"

#include <math.h>

enum { HD_CELL_STATES = 2 };

/* One step of all sequences. Row k of an array begins at k * ld. */
struct hd_cell_step {
    int64_t hidden, columns, ld;
    /* [gates hidden]: W_ih x + b_ih and W_hh h + b_hh, in whose place a cell leaves what it needs
     * backward. */
    float *a, *b;
    const float *before[HD_CELL_STATES]; /* [hidden]: states before the step */
    float *after[HD_CELL_STATES];        /* [hidden]: written forward */
    /* Backward: derivatives by states after the step, read; by a, b and states before the step as
     * far as they do not go through b, written. */
    const float *dafter[HD_CELL_STATES];
    float *da, *db, *dbefore[HD_CELL_STATES];
};

struct hd_cell {
    int gates;
    void (*forward)(const struct hd_cell_step *step);
    void (*backward)(const struct hd_cell_step *step);
};

static inline float hd_cell_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Do what the operations of a layer type do (kernels/net/layers/layer.h), with the type's cell.
 * hd_recurrent_list_tensors returns the number of tensors; there are no errors. */
bool hd_recurrent_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE]);
int hd_recurrent_list_tensors(const struct hd_layer *layer,
                              struct hd_tensor tensors[HD_LAYER_TENSORS]);
int64_t hd_recurrent_count_kept(const struct hd_layer *layer, int64_t rows, int64_t steps);
void hd_recurrent_forward(const struct hd_layer_run *run);
void hd_recurrent_backward_data(const struct hd_layer_run *run);
void hd_recurrent_backward_weights(const struct hd_layer_run *run);

#endif
