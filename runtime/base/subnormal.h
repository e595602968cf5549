/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes subnormal floats, those below 1.2e-38, to zero: CPUs compute with them in microcode, some
 * a hundred times slower, and Adam's moments of a weight whose gradient has become zero would stay
 * subnormal for ever. Each thread has a mode of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Makes the calling thread, and every thread that it creates from now on, take subnormal operands
 * and results for zero. Has no effect on processors other than x86-64 and AArch64. */
void hd_subnormals_flush(void);

/* Returns whether the calling thread flushes subnormals. */
bool hd_subnormals_are_flushed(void);

/* Return the calling thread's mode of computing with floats, and set one that was returned before:
 * for a library, whose caller has a mode of its own. */
uint64_t hd_subnormals_get_mode(void);
void hd_subnormals_set_mode(uint64_t mode);
