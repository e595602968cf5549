/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers of the kernels of nets on GPUs (*.cu). Thread safe: they only launch on `stream`, and
 * return HD_OK, HD_ERR_DEVICE or, if a count of threads exceeds 32 bits, HD_ERR_UNSUPPORTED
 * (logged). Activations are row-major, with a row for each sample or, in convolutions, for each
 * pixel of a sample ([sample][y][x][channel]); rows are padded with zeros to multiples of HD_VECTOR
 * elements. If `bf16`, activations and their gradients are bf16, else floats. Pointers are to
 * device memory, aligned to 16 bytes. */
#pragma once

#include "kernels/common/tiles.h"
#include "kernels/net/gpu/observations.h"
#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stdint.h>

/* -- Forward ----------------------------------------------------------------------------------- */

/* Makes columns[rows * pixels out][kernel][kernel][channels] of activations, of which those that
 * are not positive count as zero if `relu`. Returns a status as above. */
int hd_gpu_im2col(const void *x, const struct hd_gpu_window *window, int64_t rows, bool relu,
                  bool bf16, void *columns, void *stream);

/* Computes y[n] = a + b; n is a multiple of HD_VECTOR. Returns a status as above. */
int hd_gpu_add(int64_t n, const void *a, const void *b, bool bf16, void *y, void *stream);

/* Rows of `pixels` times `channels` elements, `stored` with padding. */
struct hd_gpu_image {
    int32_t channels, pixels, stored;
};

/* Converts rows x[rows][ld] of either type, which are [channel][pixel] if `planes`, to rows of an
 * image. Returns a status as above. */
int hd_gpu_convert(const struct hd_gpu_image *image, int64_t rows, const void *x, int64_t ld,
                   bool planes, bool from_bf16, bool to_bf16, void *y, void *stream);

/* -- Derivatives, with the sums of their columns ----------------------------------------------- */

/* The rows are cut into this many blocks, whose sums are kept separately until they are finished.
 */
enum { HD_GPU_ROW_BLOCKS = 128 };

/* The sums of block c are at sums[c * stride + column]; `add`: they are added to what is there.
 * sums NULL: none are wanted. */
struct hd_gpu_sums {
    float *sums;
    int64_t stride;
    bool add;
};

/* The place of derivatives by activations x: dx, rows like those of x, where they are zeros where x
 * is not positive, unless x is NULL; in addition to what is there if `add`; and their columns'
 * sums. */
struct hd_gpu_delta {
    void *dx;
    const void *x;
    bool bf16, add;
    struct hd_gpu_sums sums;
};

/* Passes derivatives from[rows][width] on, which may be delta->dx. Returns a status as above. */
int hd_gpu_pass_on(const struct hd_gpu_delta *delta, int64_t rows, int64_t width, const void *from,
                   void *stream);

/* Computes the derivatives by pixels[rows * pixels in][channels] of those by columns. Returns a
 * status as above. */
int hd_gpu_col2im(const struct hd_gpu_delta *delta, const struct hd_gpu_window *window,
                  int64_t rows, const void *dcolumns, void *stream);

/* -- Heads: the output layers of all streams, the actions' first, with q ------------------------
 */

/* A stream reads `width` neurons of hidden[rows][ld], floats, which begin at `from` of a row. Its
 * outputs are [first, end); weight[output - first][ld_weight]. */
struct hd_gpu_stream {
    const float *hidden, *weight;
    int64_t ld, ld_weight;
    int32_t from, width, first, end;
};

/* Outputs that no stream has are their biases alone; that of a value is the last one. */
struct hd_gpu_heads {
    struct hd_gpu_stream streams[2];
    int32_t n_streams, actions, outputs;
    bool dueling;
    int64_t ld_out; /* floats of a row of dout */
};

/* Computes q[rows][outputs of the net] from the hidden neurons and bias[output], all floats.
 * Returns a status as above. */
int hd_gpu_heads_forward(const struct hd_gpu_heads *heads, int64_t rows, const float *bias,
                         float *q, void *stream);

/* Computes dout[rows][ld_out], by output, from dq[rows][outputs of the net], and sums its columns.
 * Returns a status as above. */
int hd_gpu_heads_split(const struct hd_gpu_heads *heads, int64_t rows, const float *dq, float *dout,
                       const struct hd_gpu_sums *sums, void *stream);

/* Computes the derivatives by rows of hidden neurons, which all streams of `heads` read; delta->x
 * are floats. Returns a status as above. */
int hd_gpu_heads_backward(const struct hd_gpu_delta *delta, const struct hd_gpu_heads *heads,
                          const struct hd_gpu_image *image, int64_t rows, const float *dout,
                          void *stream);

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
