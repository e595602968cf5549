/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers below 1.2e-38: CPUs compute with them in microcode, some a hundred times slower, and
 * Adam's moments of a weight whose gradient has become zero stay among them for ever. */
#ifndef HD_RUNTIME_BASE_SUBNORMAL_H
#define HD_RUNTIME_BASE_SUBNORMAL_H

#include <stdbool.h>

/* From here on the calling thread, and every thread that it makes, takes such numbers for zero, as
 * operands and as results. Without effect on processors that this program does not know. */
void hd_subnormals_flush(void);

/* Whether the calling thread does. */
bool hd_subnormals_are_flushed(void);

#endif
