/* SPDX-License-Identifier: Apache-2.0 */
/* Nets on GPUs: the launchers of their kernels (*.cu). Activations are row-major, a row per sample
 * or, of convolutions, per pixel of a sample ([sample][y][x][channel]); rows are filled up with
 * zeros to multiples of HD_VECTOR elements. `bf16` says how activations and their gradients are
 * stored, else they are floats. Pointers are to memory of the GPU, aligned to 16 bytes. */
#ifndef HD_KERNELS_NET_GPU_LAUNCHES_INTERNAL_H
#define HD_KERNELS_NET_GPU_LAUNCHES_INTERNAL_H

#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stdint.h>

/* Elements that a thread reads or writes at once. */
enum { HD_VECTOR = 8 };

/* -- Observations ------------------------------------------------------------------------------ */

enum hd_gpu_obs_type { HD_GPU_BYTES, HD_GPU_FLOATS, HD_GPU_BF16 };

/* Rows of `first`, then of `second`. */
struct hd_gpu_obs {
    const void *first, *second;
    int64_t n_first, elements; /* of an observation */
    enum hd_gpu_obs_type type;
    const float *scale, *shift; /* as kernels/net/obs_norm.h says; NULL: bytes divided by 255,
                                   others as they are */
    float limit;
};

/* A convolution. `channels` of the first one's input are real ones, in planes ([C][H][W]); else
 * with their padding. */
struct hd_gpu_window {
    int32_t channels, height, width, kernel, stride, out_height, out_width;
};

/* to[rows][ld] of observations, zeros behind their elements. */
int hd_gpu_take_obs(const struct hd_gpu_obs *obs, int64_t rows, int64_t ld, bool bf16, void *to,
                    void *stream);

/* columns[rows * pixels out][C * kernel * kernel] of observations from row `from_row` on, kernel
 * being HD_VECTOR: what the first convolution multiplies. */
int hd_gpu_im2col_obs(const struct hd_gpu_obs *obs, int64_t from_row,
                      const struct hd_gpu_window *window, int64_t rows, bool bf16, void *columns,
                      void *stream);

/* columns[rows * pixels out][kernel][kernel][channels] of activations. */
int hd_gpu_im2col(const void *x, const struct hd_gpu_window *window, int64_t rows, bool bf16,
                  void *columns, void *stream);

/* -- Gradients of activations, with the sums of their columns ---------------------------------- */

/* The rows are cut into this many blocks, whose sums are kept apart until the last moment. */
enum { HD_GPU_ROW_BLOCKS = 128 };

/* Sums of block c at sums[c * stride + column]; `add`: to what is there. */
struct hd_gpu_sums {
    float *sums;
    int64_t stride;
    bool add;
};

/* dy[rows][width] becomes zero where y is not positive (y NULL: it stays); its sums. */
int hd_gpu_mask(int64_t rows, int64_t width, const void *y, bool bf16, void *dy,
                const struct hd_gpu_sums *sums, void *stream);

/* dx[rows * pixels in][channels] from the gradient of the columns, zero where x, the convolution's
 * input, is not positive; its sums. */
int hd_gpu_col2im(const void *dcolumns, const struct hd_gpu_window *window, int64_t rows,
                  const void *x, bool bf16, void *dx, const struct hd_gpu_sums *sums, void *stream);

/* -- Heads ---------------------------------------------------------------------------------------
 * The streams' hidden layers are side by side, that of the actions first; so are the outputs: a
 * value of each action, then, if there are two streams, that of the other one. Floats. */

struct hd_gpu_heads {
    int32_t actions, streams, width; /* neurons of a stream's hidden layer */
    bool dueling;
    int64_t ld_hidden, ld_weight, ld_out; /* floats from row to row */
};

/* Outputs of these layers for a row. */
HD_INLINE int32_t hd_gpu_count_head_outputs(const struct hd_gpu_heads *heads)
{
    return heads->actions + heads->streams - 1;
}

/* q[rows][outputs of the net] of hidden[rows][ld_hidden], weight[output][ld_weight] (a stream's
 * width) and bias[output]. */
int hd_gpu_heads_forward(const struct hd_gpu_heads *heads, int64_t rows, const float *hidden,
                         const float *weight, const float *bias, float *q, void *stream);

/* dout[rows][ld_out], by output, from dq[rows][outputs of the net]; its sums. */
int hd_gpu_heads_split(const struct hd_gpu_heads *heads, int64_t rows, const float *dq, float *dout,
                       const struct hd_gpu_sums *sums, void *stream);

/* From it dhidden[rows][ld_hidden], before the ReLU; its sums. */
int hd_gpu_heads_backward_hidden(const struct hd_gpu_heads *heads, int64_t rows, const float *dout,
                                 const float *weight, const float *hidden, bool bf16, void *dhidden,
                                 const struct hd_gpu_sums *sums, void *stream);

/* -- Parameters -------------------------------------------------------------------------------- */

/* A matrix [rows][columns] of the shadow. Shadows have `narrow` elements of activations' type, then
 * floats; `at` counts elements from the shadow's start. Its tiles follow those of the matrix before
 * it. */
struct hd_gpu_matrix {
    int64_t at, rows, columns, tiles_before;
};

enum { HD_GPU_TILE = 32 }; /* rows and columns */

struct hd_gpu_shadow {
    const struct hd_gpu_matrix *matrices; /* of the GPU, as is all below */
    int32_t n_matrices;
    int64_t tiles, narrow;
    const int32_t *from; /* by element: which float of the flat array it is; -1: none, it is zero */
};

/* Elements of the shadow that are floats [lo, hi), and those that are none. */
int hd_gpu_refresh_shadow(const struct hd_gpu_shadow *shadow, const float *floats, int64_t lo,
                          int64_t hi, bool bf16, void *narrow, float *wide, void *stream);

/* grad[i], lo <= i < hi: gradient[at[i]]; from `sums` on the blocks' sums of column at[i] -
 * n_gradient, added up in order; zero where at[i] < 0. */
int hd_gpu_gather_gradient(const int32_t *at, int64_t lo, int64_t hi, const float *gradient,
                           int64_t n_gradient, const float *sums, int64_t stride, float *grad,
                           void *stream);

#endif
