/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HD_RUNTIME_BASE_MIN_H
#define HD_RUNTIME_BASE_MIN_H

#include <stdint.h>

/* The smaller of two counts. */
static inline int64_t hd_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
