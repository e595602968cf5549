/* SPDX-License-Identifier: Apache-2.0 */
/* ReLU. Thread safe. */
#pragma once

#include "kernels/common/bf16.h"

/* Sets dy[i] to 0 where the output y[i] of the ReLU is not positive, for i < n. */
void hd_relu_backward(int64_t n, const float *y, float *dy);
void hd_relu_backward_bf16(int64_t n, const hd_bf16 *y, hd_bf16 *dy);
