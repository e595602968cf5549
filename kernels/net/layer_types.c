/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layer_types.h"

#include <string.h>

static const struct hd_layer_type *const types[] = {
    &hd_layer_dense,      &hd_layer_conv,       &hd_layer_relu,      &hd_layer_tanh,
    &hd_layer_gelu,       &hd_layer_max_pool,   &hd_layer_flatten,   &hd_layer_layer_norm,
    &hd_layer_group_norm, &hd_layer_batch_norm, &hd_layer_embedding, &hd_layer_gru,
    &hd_layer_lstm,       &hd_layer_residual,
};

const struct hd_layer_type *hd_layer_type_get(int i)
{
    return i < (int)(sizeof types / sizeof *types) ? types[i] : NULL;
}

const struct hd_layer_type *hd_layer_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}
