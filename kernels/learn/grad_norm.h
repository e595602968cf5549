/* SPDX-License-Identifier: Apache-2.0 */
/* What the L2 norm of a gradient is made of. Thread safe. */
#ifndef HD_KERNELS_LEARN_GRAD_NORM_H
#define HD_KERNELS_LEARN_GRAD_NORM_H

#include "kernels/common/partials.h"

#include <stdint.h>

/* The sum of squares of n floats, in double and in a fixed order, the same with any vector width.
 */
double hd_grad_norm_sum_squares(const float *x, int64_t n);

/* On a GPU, to the bit, for elements [lo, hi) of a gradient, lo a multiple of HD_BLOCK:
 * blocks[i / HD_BLOCK] = hd_grad_norm_sum_squares of the partials' mean (as hd_partials_mean_cuda
 * has it) in the block of element i. `blocks` is the device's; grad is read before the call
 * returns. */
int hd_grad_norm_sum_squares_cuda(const struct hd_partials *grad, int64_t lo, int64_t hi,
                                  double *blocks, void *stream);

/* Then *sum_p, the device's or shared, = blocks[n] added in the fixed tree. */
int hd_grad_norm_add_blocks_cuda(const double *blocks, int64_t n, double *sum_p, void *stream);

#endif
