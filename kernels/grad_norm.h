/* SPDX-License-Identifier: Apache-2.0 */
/* What the L2 norm of a gradient is made of. Thread safe. */
#ifndef HD_KERNELS_GRAD_NORM_H
#define HD_KERNELS_GRAD_NORM_H

#include <stdint.h>

/* The sum of squares of n floats, in double and in a fixed order, the same with any vector width.
 */
double hd_squares(const float *x, int64_t n);

#endif
