/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the policy's net that do not learn (policy.learn.freeze). Their gradient is zero in
 * all that follows: Adam's moments of them stay zero, so that they keep their bits, and the norm by
 * which gradients are clipped is that of the others, as with PyTorch's requires_grad. Thread safe.
 */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/registry.h"

/* Stores, in the order of the flat array, 1 for each element that learns and 0 for others, to be
 * freed with hd_free; NULL: all learn. Returns HD_OK, HD_ERR_NOMEM, HD_ERR_UNSUPPORTED (logged), or
 * HD_ERR_INPUT (in setup->diag): a name is no tensor or module of the net, or nothing would learn.
 */
int hd_freeze_read(const struct hd_setup *setup, const struct hd_net *net, float **learns_p);

/* Makes elements [lo, hi) of a gradient that do not learn zero; learns NULL: none. */
void hd_freeze_apply(const float *learns, int64_t lo, int64_t hi, float *grad);
