/* SPDX-License-Identifier: Apache-2.0 */
/* A shadow is the bf16 copy of a float tensor, in the order in which a kernel reads it. Whoever
 * changes a range of the floats also refreshes that range of the shadow, while it is in the cache.
 * Thread safe on different memory. */
#pragma once

#include "kernels/common/bf16.h"

/* A table from floats to elements of a shadow; read-only once made. */
struct hd_shadow;

/* Makes a table from place[elements]: place[i] is the index in the shadow of float i, or -1 if it
 * has none (padding). Other elements of the shadow are never written; they are zero from the start.
 * The caller releases it by hd_shadow_destroy, which accepts NULL. Returns HD_OK or
 * HD_ERR_NOMEM. */
int hd_shadow_create(const int32_t *place, int64_t elements, struct hd_shadow **shadow_p);
void hd_shadow_destroy(struct hd_shadow *shadow);

/* Refreshes `to` for the floats [lo, hi), which are multiples of HD_BF16_UNIT or the end. If
 * `shadow` is NULL, the shadow has the order of the floats, in pairs of rows of 16 as hd_bf16_pair
 * makes them. */
void hd_shadow_refresh(const struct hd_shadow *shadow, const float *floats, int64_t lo, int64_t hi,
                       hd_bf16 *to);
