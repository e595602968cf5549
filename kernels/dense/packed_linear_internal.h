/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the passes, and the implementations of the bf16 ones. Thread safe. */
#pragma once

#include "kernels/common/vector.h"
#include "kernels/dense/packed_linear.h"

/* Blocks of inputs that backward passes of many rows compute at a time. */
enum { HD_PACK_GROUP = 4 };

/* Stores the first `inputs` of a row of a block of dx, with 0 where the mask is not positive. */
HD_ALWAYS void hd_packed_store_row(const hd_bf16 row[HD_PACK_IN], int64_t inputs,
                                   const hd_bf16 *mask, hd_bf16 *dx)
{
    hd_bf16 passed[HD_PACK_IN];
    if (inputs < HD_PACK_IN) {
        for (int64_t i = 0; i < inputs; i++)
            dx[i] = !mask || (int16_t)mask[i] > 0 ? row[i] : 0;
        return;
    }
    for (int i = 0; i < HD_PACK_IN && mask; i++)
        passed[i] = (int16_t)mask[i] > 0 ? row[i] : 0;
    memcpy(dx, mask ? passed : row, sizeof passed);
}

/* A panel of a forward product: some blocks of inputs by as many blocks of outputs as the registers
 * hold, for up to HD_REG_ROWS rows. Weights and activations are floats or bf16. */
struct hd_packed_panel {
    const void *w;
    int64_t next;  /* weights from one block of inputs to the next */
    int64_t depth; /* inputs */
    const void *x;
    int64_t ldx;
    float *y;
    int64_t ldy;
    const float *bias; /* in the last panel; else NULL */
    bool start;        /* true: y holds nothing yet */
    const void *ahead; /* a block of outputs of the next panel, to be prefetched; or NULL */
};

/* A way to compute a forward product: of floats, or of bf16. */
struct hd_packed_way {
    int64_t bytes;  /* of a weight, and of an activation */
    int64_t blocks; /* of inputs at a time, so that a panel stays in the first-level cache */
    void (*run)(const struct hd_packed_panel *panel, int rows, int vectors);
};

/* Computes a forward product, panel by panel. */
void hd_packed_run_panels(const struct hd_packed *p, const struct hd_packed_way *way, int64_t rows,
                          const void *w, const float *bias, const void *x, int64_t ldx, float *y,
                          int64_t ldy);

/* Loads the sums over the panels before; zeros at the start. */
HD_ALWAYS void hd_packed_load_sums(const struct hd_packed_panel *p, int rows, int vectors,
                                   hd_reg sum[HD_REG_ROWS][HD_REG_COLUMNS])
{
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = p->start ? (hd_reg){0} : hd_reg_load(p->y + r * p->ldy + v * HD_REG);
}

/* Stores the sums, with the bias after the last panel. */
HD_ALWAYS void hd_packed_store_sums(const struct hd_packed_panel *p, int rows, int vectors,
                                    hd_reg sum[HD_REG_ROWS][HD_REG_COLUMNS])
{
    for (int v = 0; v < vectors; v++) {
        hd_reg bias = {0};
        if (p->bias)
            bias = hd_reg_load(p->bias + v * HD_REG);
        for (int r = 0; r < rows; r++)
            hd_reg_store(p->y + r * p->ldy + v * HD_REG, p->bias ? sum[r][v] + bias : sum[r][v]);
    }
}

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

extern const struct hd_packed_bf16 hd_packed_pairs; /* products of pairs, on all processors */
extern const struct hd_packed_bf16
    hd_packed_amx; /* needs hd_amx_is_ready(); all NULL in programs built without AMX */
