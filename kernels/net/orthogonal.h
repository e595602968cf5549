/* SPDX-License-Identifier: Apache-2.0 */
/* Random orthogonal matrices as initial weights (Saxe et al. 2013, "Exact solutions to the
 * nonlinear dynamics of learning in deep linear neural networks"). Thread safe on different
 * memory. */
#pragma once

#include "runtime/base/rng.h"

#include <stdint.h>

/* Writes w[rows][columns] with orthonormal rows, or orthonormal columns if there are more rows,
 * times gain. The result is that of torch.nn.init.orthogonal_ for the same normal draws: Q of the
 * QR decomposition whose R has a positive diagonal, so that Q is distributed uniformly. Element i
 * is drawn as item `first` + i of rng. Returns HD_OK or HD_ERR_NOMEM. */
int hd_orthogonal_init(const struct hd_rng *rng, int64_t first, int64_t rows, int64_t columns,
                       double gain, float *w);
