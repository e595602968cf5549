/* SPDX-License-Identifier: Apache-2.0 */
/* The step of a target net towards the net that learns (Polyak averaging). Thread safe on different
 * memory. */
#pragma once

#include <stdint.h>

/* Computes to[n] = share from + (1 - share) to. */
void hd_polyak_move(float share, int64_t n, const float *from, float *to);

/* Does so on a GPU, to the same bits; pointers are to device memory. Returns HD_OK or HD_ERR_DEVICE
 * (logged). */
int hd_polyak_move_cuda(float share, int64_t n, const float *from, float *to, void *stream);
