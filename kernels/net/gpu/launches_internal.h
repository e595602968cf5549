/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers of the kernels of nets on GPUs (*.cu). Thread safe: they only launch on `stream`, and
 * return HD_OK, HD_ERR_DEVICE or, if a count of threads exceeds 32 bits, HD_ERR_UNSUPPORTED
 * (logged). Activations are row-major, with a row for each sample or, in convolutions, for each
 * pixel of a sample ([sample][y][x][channel]); rows are padded with zeros to multiples of HD_VECTOR
 * elements. If `bf16`, activations and their gradients are bf16, else floats. Pointers are to
 * device memory, aligned to 16 bytes. */
#ifndef HD_KERNELS_NET_GPU_LAUNCHES_INTERNAL_H
#define HD_KERNELS_NET_GPU_LAUNCHES_INTERNAL_H

#include "kernels/common/tiles.h"
#include "kernels/net/gpu/observations.h"
#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stdint.h>

/* -- Convolutions ------------------------------------------------------------------------------ */

/* Makes columns[rows * pixels out][kernel][kernel][channels] of activations. Returns a status as
 * above. */
int hd_gpu_im2col(const void *x, const struct hd_gpu_window *window, int64_t rows, bool bf16,
                  void *columns, void *stream);

/* -- Gradients of activations, with the sums of their columns ---------------------------------- */

/* The rows are cut into this many blocks, whose sums are kept separately until they are finished.
 */
enum { HD_GPU_ROW_BLOCKS = 128 };

/* The sums of block c are at sums[c * stride + column]; `add`: they are added to what is there. */
struct hd_gpu_sums {
    float *sums;
    int64_t stride;
    bool add;
};

/* Sets dy[rows][width] to zero where y is not positive (y NULL: nowhere) and sums its columns.
 * Returns a status as above. */
int hd_gpu_mask(int64_t rows, int64_t width, const void *y, bool bf16, void *dy,
                const struct hd_gpu_sums *sums, void *stream);

/* Computes dx[rows * pixels in][channels] from the gradient of the columns, with zeros where x, the
 * convolution's input, is not positive, and sums its columns. Returns a status as above. */
int hd_gpu_col2im(const void *dcolumns, const struct hd_gpu_window *window, int64_t rows,
                  const void *x, bool bf16, void *dx, const struct hd_gpu_sums *sums, void *stream);

/* -- Heads: hidden layers of all streams side by side, the actions' first, and so their outputs  */

struct hd_gpu_heads {
    int32_t actions, streams, width; /* width: neurons of a stream's hidden layer */
    bool dueling;
    int64_t ld_hidden, ld_weight, ld_out; /* floats from one row to the next */
};

/* Returns the number of outputs of a row: a value for each action and, if there are two streams,
 * the value of the other one. */
HD_INLINE int32_t hd_gpu_count_head_outputs(const struct hd_gpu_heads *heads)
{
    return heads->actions + heads->streams - 1;
}

/* Computes q[rows][outputs of the net] from hidden[rows][ld_hidden], weight[output][ld_weight] (as
 * wide as a stream) and bias[output], all floats. Returns a status as above. */
int hd_gpu_heads_forward(const struct hd_gpu_heads *heads, int64_t rows, const float *hidden,
                         const float *weight, const float *bias, float *q, void *stream);

/* Computes dout[rows][ld_out], by output, from dq[rows][outputs of the net], and sums its columns.
 * Returns a status as above. */
int hd_gpu_heads_split(const struct hd_gpu_heads *heads, int64_t rows, const float *dq, float *dout,
                       const struct hd_gpu_sums *sums, void *stream);

/* Computes dhidden[rows][ld_hidden], before the ReLU, from dout, and sums its columns. Returns a
 * status as above. */
int hd_gpu_heads_backward_hidden(const struct hd_gpu_heads *heads, int64_t rows, const float *dout,
                                 const float *weight, const float *hidden, bool bf16, void *dhidden,
                                 const struct hd_gpu_sums *sums, void *stream);

/* -- Parameters -------------------------------------------------------------------------------- */

/* Refreshes the shadow weights that come from floats [lo, hi), and padding beside them. Returns a
 * status as above. */
int hd_gpu_refresh_shadow(const struct hd_tiles *tiles, int64_t lo, int64_t hi, void *stream);

/* Writes grad[i], lo <= i < hi: gradient[at[i]], or zero if at[i] < 0. Returns a status as above.
 */
int hd_gpu_gather_gradient(const int32_t *at, int64_t lo, int64_t hi, const float *gradient,
                           float *grad, void *stream);

/* Writes to[i], first <= i < end: the blocks' sums of column i, added in order. Returns a status as
 * above. */
int hd_gpu_finish_sums(const float *sums, int64_t stride, int64_t first, int64_t end, float *to,
                       void *stream);

#endif
