/* SPDX-License-Identifier: Apache-2.0 */
/* Float convolutions with kernels of 2 x 2 or 3 x 3 by Winograd's minimal filtering (Lavin & Gray
 * 2016): F(3 x 3, 2 x 2) computes 9 outputs, and F(2 x 2, 3 x 3) computes 4, with 16 products of
 * matrices on 4 x 4 inputs instead of 36 products, plus sums and differences around them. With
 * stride s the kernel is s times as large, and the phases of every s-th pixel are the input
 * channels; only with stride 1 may there be padding. Gradients use the transposed transforms.
 * Activations are HD_NCHW16, weights blocks of 16 input by 16 output channels, [out / 16][in /
 * 16][y][x][16][16], as in oneDNN. The bits of an observation's output and of its input's gradient
 * depend on that observation alone. Thread safe on different memory. */
#pragma once

#include "kernels/conv/conv_own_internal.h"

/* Returns whether the fields allow it and it is faster. The caller checks the layout of the
 * weights. */
bool hd_winograd_supports(const struct hd_conv_fields *fields);

extern const struct hd_conv_own hd_winograd[HD_CONV_PASSES];
