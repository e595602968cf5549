/* SPDX-License-Identifier: Apache-2.0 */
/* Random orthogonal matrices as starting weights (Saxe et al. 2013, "Exact solutions to the
 * nonlinear dynamics of learning in deep linear neural networks"). */
#ifndef HD_KERNELS_COMMON_ORTHOGONAL_H
#define HD_KERNELS_COMMON_ORTHOGONAL_H

#include "runtime/base/rng.h"

#include <stdint.h>

/* w[rows][columns], times gain: orthonormal rows, or orthonormal columns if there are more rows.
 * What torch.nn.init.orthogonal_ makes of the same normal draws: Q of the QR decomposition whose R
 * has a positive diagonal, so that Q is distributed uniformly. Element i is drawn as item
 * `first` + i of rng. HD_ERR_NOMEM. */
int hd_orthogonal_init(const struct hd_rng *rng, int64_t first, int64_t rows, int64_t columns,
                       double gain, float *w);

#endif
