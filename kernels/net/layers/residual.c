/* SPDX-License-Identifier: Apache-2.0 */
/* The input plus the output of the layers inside (He et al. 2016). The net checks that their shapes
 * are equal, adds, and adds the derivatives. */
#include "kernels/net/layers/layer.h"

const struct hd_layer_type hd_layer_residual = {
    .name = "residual",
    .has_body = true,
    .infer = hd_layer_keep_shape,
};
