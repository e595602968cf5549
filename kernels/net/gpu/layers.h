/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of layers on GPUs that are no products of matrices, which compute what those of their
 * type do on CPUs. Rows are those of an image: [pixel][channel], whose channels are padded with
 * zeros to whole vectors; vectors have a single pixel. Thread safe: operations only launch. */
#pragma once

#include "kernels/net/gpu/launches.h"
#include "kernels/net/layers/layer.h"

/* The arguments of an operation; which of them it reads and writes depends on the operation. */
struct hd_gpu_run {
    const struct hd_layer *layer;
    int64_t rows;                /* samples */
    struct hd_gpu_image in, out; /* rows of x and of y */
    bool bf16;                   /* y and derivatives are bf16, and so is x; else floats */
    const float *weight, *bias;  /* of vectors like rows of x if they have as many numbers */
    const void *x, *dy;          /* an embedding's x are floats */
    void *y, *kept, *scratch;    /* kept: written forward, read backward */
    struct hd_gpu_delta dx;      /* where derivatives by x go */
    struct hd_gpu_sums dweight, dbias;
    void *stream;
};

/* Operations return HD_OK, HD_ERR_DEVICE or, of too many numbers, HD_ERR_UNSUPPORTED (logged). */
struct hd_layer_on_gpu {
    /* Returns the floats that are kept of a row of y, of which scratch has as many. NULL: none. */
    int64_t (*count_kept)(const struct hd_gpu_image *out);
    int (*forward)(const struct hd_gpu_run *run);
    int (*backward_data)(const struct hd_gpu_run *run);    /* NULL: x is always an observation */
    int (*backward_weights)(const struct hd_gpu_run *run); /* NULL: there are none */
};

/* Returns the elements of a row. */
static inline int64_t hd_gpu_count_row(const struct hd_gpu_image *image)
{
    return (int64_t)image->pixels * image->stored;
}

/* Returns the windows of a layer over images of so many channels, those of padding included. */
static inline struct hd_gpu_window hd_gpu_make_window(const struct hd_layer *layer,
                                                      int64_t channels, int64_t kernel,
                                                      int64_t stride, int64_t padding)
{
    const struct hd_gpu_window window = {(int32_t)channels,
                                         (int32_t)layer->in.size[1],
                                         (int32_t)layer->in.size[2],
                                         (int32_t)kernel,
                                         (int32_t)stride,
                                         (int32_t)layer->out.size[1],
                                         (int32_t)layer->out.size[2],
                                         (int32_t)padding};
    return window;
}
