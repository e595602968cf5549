/* SPDX-License-Identifier: Apache-2.0 */
/* Shadows: bf16 copies of float tensors, in the order in which a kernel reads them. The floats are
 * the truth; whoever changes a range of them renews that range of the shadow, so both can be done
 * while the range is in cache. */
#ifndef HD_KERNELS_COMMON_SHADOW_H
#define HD_KERNELS_COMMON_SHADOW_H

#include "kernels/common/bf16.h"

/* Where the floats go. Read-only once made, hence thread safe. */
struct hd_shadow;

/* place[i] is the index in the shadow of element i < elements of the floats, -1: nowhere (padding;
 * the shadow's other elements stay as they are, zero from the start). Released by hd_shadow_destroy
 * (accepts NULL). Errors: HD_ERR_NOMEM. */
int hd_shadow_create(const int32_t *place, int64_t elements, struct hd_shadow **shadow_p);
void hd_shadow_destroy(struct hd_shadow *shadow);

/* Renews what the floats [lo, hi) decide, lo and hi multiples of HD_BF16_UNIT or the end. shadow
 * NULL: pairs of rows of 16, as hd_bf16_pair makes them, in the order of the floats. */
void hd_shadow_refresh(const struct hd_shadow *shadow, const float *floats, int64_t lo, int64_t hi,
                       hd_bf16 *to);

#endif
