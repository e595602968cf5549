/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/activation.h"

void hd_relu_backward(int64_t n, const float *restrict y, float *restrict dy)
{
    for (int64_t i = 0; i < n; i++)
        dy[i] = y[i] <= 0 ? 0 : dy[i];
}

void hd_relu_backward_bf16(int64_t n, const hd_bf16 *restrict y, hd_bf16 *restrict dy)
{
    for (int64_t i = 0; i < n; i++)
        dy[i] = (int16_t)y[i] > 0 ? dy[i] : 0;
}
