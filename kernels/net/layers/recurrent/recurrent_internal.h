/* SPDX-License-Identifier: Apache-2.0 */
/* The passes that gru and lstm share; they differ in a cell's arithmetic. All arrays have a row for
 * each row of the input, that is for each step of each sequence, so that products take inputs,
 * outputs and most weights as they are. The product with the inputs is one for all steps; that with
 * the state goes step by step over all sequences. Thread safe on different memory. */
#pragma once

#include "kernels/common/vector.h"
#include "kernels/net/layers/layer.h"

enum { HD_CELL_STATES = 2 };

/* One step of one sequence. */
struct hd_cell_row {
    /* [gates hidden]: W_ih x, without biases, in whose place a cell leaves what it needs backward;
     * and forward W_hh h likewise. [hidden]: more that it needs backward. */
    float *gates;
    const float *products;
    float *more;
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
    int gates, summed; /* summed: those that take the sum of both products; gates or gates - 1 */
    void (*forward)(int64_t hidden, const struct hd_cell_row *row);
    void (*backward)(int64_t hidden, const struct hd_cell_row *row);
};

/* Computes the sigmoid of n sums of both products and biases, in place of the gates. */
void hd_recurrent_open_gates(int64_t n, const float *bias_ih, const float *bias_hh,
                             const float *products, float *gates);

/* -- Products (recurrent_products.c) ----------------------------------------------------------- */

/* Rows of floats, `row` floats apart. */
struct hd_rows {
    int64_t rows;
    const float *at;
    int64_t row;
};

/* A weight as products take it, in which a row of `in` numbers yields one of `out`. In bf16 it and
 * the rows are rounded, and sums are floats. A row's result depends on that row alone. */
struct hd_factor {
    bool bf16;
    int64_t in, out, ld;
    const float *weight;
};

/* Makes a factor of weight[in][out], or of its transpose, which is weight[out][in]; it uses
 * memory[hd_factor_count], 64-byte aligned, and perhaps the weight. */
struct hd_factor hd_factor_make(bool bf16, int64_t in, int64_t out, const float *weight,
                                bool transposed, float *memory);
int64_t hd_factor_count(bool bf16, int64_t in, int64_t out);

/* Computes y[r] = (add ? y[r] : 0) + the product of x[r] for the rows of x. Rows of y are `y_row`
 * floats apart; up to the next multiple of HD_LANES, what lies behind `out` may be written. */
void hd_factor_multiply(const struct hd_factor *f, const struct hd_rows *x, bool add, float *y,
                        int64_t y_row, float *scratch);
int64_t hd_factor_count_scratch(bool bf16, int64_t rows, int64_t in, int64_t out);

/* Computes dweight[o][i] = sum_r dy[r][o] x[r][i], which is added to what is there if `add`, unless
 * numbers are rounded. Rows of x can be read as vectors. */
void hd_rows_multiply(bool bf16, int64_t out, const struct hd_rows *dy, int64_t in,
                      const struct hd_rows *x, bool add, float *dweight, float *scratch);
int64_t hd_rows_count_scratch(bool bf16, int64_t rows, int64_t out, int64_t in);

/* -- Passes ------------------------------------------------------------------------------------ */

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
