/* SPDX-License-Identifier: Apache-2.0 */
/* A two-dimensional convolution without padding, bias and ReLU included, and its gradients, through
 * oneDNN or, where that is slow, kernels of our own. Weights, their gradient and everything made
 * element by element from them are kept in the layout in which oneDNN computes, so that no pass
 * converts 90 % of its bytes; hd_conv_import and export lead to and from PyTorch's. One call
 * computes on the calling thread alone: bits depend on the parts of a pass, never on the thread.
 * Thread safe once made. */
#ifndef HD_KERNELS_CONV_CONV_H
#define HD_KERNELS_CONV_CONV_H

#include "kernels/conv/conv_fields.h"

struct hd_conv;

/* Released by hd_conv_destroy (accepts NULL). Errors: HD_ERR_NOMEM, HD_ERR_UNSUPPORTED (logged). */
int hd_conv_create(const struct hd_conv_fields *fields, struct hd_conv **conv_p);
void hd_conv_destroy(struct hd_conv *conv);

/* Output's layout and sizes; elements of one observation, padding channels included. */
enum hd_layout hd_conv_get_output(const struct hd_conv *conv, int64_t *height_p, int64_t *width_p);
int64_t hd_conv_count_input_elements(const struct hd_conv *conv);
int64_t hd_conv_count_output_elements(const struct hd_conv *conv);

/* Floats of the weights, padding included: the layout has zeros where channels are missing. */
int64_t hd_conv_count_weights(const struct hd_conv *conv);

/* Elements of the bf16 shadow of the weights that hd_conv_forward reads; 0: it reads the floats. */
int64_t hd_conv_count_shadow(const struct hd_conv *conv);

/* Renews the shadow for floats [lo, hi), multiples of 32 or the end. Nothing without a shadow. */
void hd_conv_refresh_shadow(const struct hd_conv *conv, const float *weights, int64_t lo,
                            int64_t hi, hd_bf16 *shadow);

/* Between the layout here and PyTorch's row_major[out][in][y][x]. HD_ERR_NOMEM or
 * HD_ERR_UNSUPPORTED (logged). */
int hd_conv_import(const struct hd_conv *conv, const float *row_major, float *weights);
int hd_conv_export(const struct hd_conv *conv, const float *weights, float *row_major);

/* Builds what a part of `batch` observations of a pass needs; at once when that is there already.
 * The pass itself does so too if it must. Errors as for create. */
int hd_conv_prepare(struct hd_conv *conv, enum hd_conv_pass pass, int64_t batch);

/* Bytes of scratch of such a pass whose parts have at most `most` observations; prepares those. */
int64_t hd_conv_get_scratch_bytes(struct hd_conv *conv, enum hd_conv_pass pass, int64_t max_batch);

/* What computes it: oneDNN's "brgconv:avx512_core_amx_bf16", or "heddle amx_bf16"; for people.
 * Borrowed. */
const char *hd_conv_get_name(struct hd_conv *conv, enum hd_conv_pass pass, int64_t batch);

/* A pass on its way. It begins, goes over observations part by part, and ends. Memory is the
 * caller's and stays as it is until then; no two pointers overlap. */
struct hd_conv_run {
    struct hd_conv *conv;
    enum hd_conv_pass pass;
    int64_t max_batch;   /* observations of a part, at most */
    const void *weights; /* of forward: the shadow if there is one, else the floats; of data: the
                            floats */
    const float *bias;   /* [out] of forward */
    float *dweights, *dbias;          /* of weights: sums over all parts, complete at the end */
    void *scratch;                    /* 64-byte aligned */
    struct hd_conv_prefetch prefetch; /* of the next part; may differ from part to part */
    bool begun;                       /* its own */
};

/* All 0, or an error (logged). x, y and their gradients are bf16 or float as the fields say. */
int hd_conv_begin(struct hd_conv_run *run);
int hd_conv_end(struct hd_conv_run *run);

/* y = max(0, conv(x, weights) + bias). */
int hd_conv_forward(struct hd_conv_run *run, int64_t batch, const void *x, void *y);

/* dy is the gradient before the ReLU. */
int hd_conv_backward_weights(struct hd_conv_run *run, int64_t batch, const void *x, const void *dy);

/* dx is zero where y, this convolution's input, comes from a ReLU that is not positive there. */
int hd_conv_backward_data(struct hd_conv_run *run, int64_t batch, const void *dy, const void *y,
                          void *dx);

/* Name, version and instruction set of the library, and whether bf16 gradients use the matrix
 * registers: "onednn 2.6.3 isa 0x3e7 amx", part of the arithmetic fingerprint. */
void hd_conv_describe_library(char *text, size_t bytes);

#endif
