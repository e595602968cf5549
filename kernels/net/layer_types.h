/* SPDX-License-Identifier: Apache-2.0 */
/* The types of layers by their names in run files. Thread safe. */
#pragma once

#include "kernels/net/layers/layer.h"

/* Return the i-th type, NULL past the last one; and the type of that name, or NULL. */
const struct hd_layer_type *hd_layer_type_get(int i);
const struct hd_layer_type *hd_layer_type_find(const char *name);
