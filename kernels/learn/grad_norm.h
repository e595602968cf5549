/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of squares behind the L2 norm of a gradient. Thread safe. */
#pragma once

#include "kernels/common/partials.h"
#include "kernels/common/scalar.h"

#include <stdint.h>

/* Returns the sum of squares of n floats, added in double in a fixed order that does not depend on
 * the vector width. */
double hd_grad_norm_sum_squares(const float *x, int64_t n);

/* Computes on a GPU, to the bit, for elements [lo, hi) of a gradient (lo a multiple of HD_BLOCK):
 * blocks[i / HD_BLOCK] = hd_grad_norm_sum_squares of the partials' mean (hd_partials_mean_cuda) in
 * the block of element i. gpu_at is NULL, or the gradient is one partial with counts in GPU order
 * and gpu_at the table gradient_at of kernels/common/tiles.h, which leaves the order of the sum as
 * it is. gpu_at and `blocks` are device memory; grad is read before the call returns. Returns
 * HD_OK, HD_ERR_DEVICE or an error of hd_partials_mean_cuda (logged). */
int hd_grad_norm_sum_squares_cuda(const struct hd_partials *grad, const int32_t *gpu_at, int64_t lo,
                                  int64_t hi, double *blocks, void *stream);

/* Adds blocks[n] in the fixed tree and pushes the root of the sum, the norm, to a statistic.
 * Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_grad_norm_push_cuda(const double *blocks, int64_t n, struct hd_scalar_slot norm,
                           void *stream);
