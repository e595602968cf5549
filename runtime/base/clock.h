/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks for reports, deadlines and the trace; task bodies never read one. Thread safe. */
#pragma once

#include <stdint.h>

/* Returns nanoseconds of a monotonic clock that all processes of a machine share. */
int64_t hd_clock_get_ns(void);

/* Returns nanoseconds since 1970-01-01 UTC. */
int64_t hd_clock_get_wall_ns(void);
