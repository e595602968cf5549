/* SPDX-License-Identifier: Apache-2.0 */
/* The precisions in which gradients may travel. All instruction sets give the same bits, whether
 * subnormal numbers are flushed or not. Thread safe.
 *
 *   bf16  as in bf16.h
 *   f16   IEEE 754 half precision with its subnormal numbers; what is too large becomes infinite
 *   int8  integers in [-127, 127] times one scale for each block, the largest magnitude there /
 * 127; a block with a number that is not finite becomes NaN throughout, one of numbers below 127 *
 * 2^-126 zero */
#pragma once

#include "runtime/base/tree.h"

extern const struct hd_rounding hd_rounding_bf16, hd_rounding_f16, hd_rounding_int8;

/* Returns the precision of this name, or NULL: f32, which rounds nothing. */
const struct hd_rounding *hd_rounding_find(const char *name);
