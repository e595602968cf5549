/* SPDX-License-Identifier: Apache-2.0 */
/* Time for people and for the trace; task bodies never read it. Thread safe. */
#ifndef HD_RUNTIME_BASE_CLOCK_H
#define HD_RUNTIME_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of a monotonic clock, comparable between processes of one machine. */
int64_t hd_clock_get_ns(void);

/* Nanoseconds of CPU time used by this process. */
int64_t hd_clock_get_cpu_ns(void);

/* Nanoseconds since 1970-01-01 UTC. */
int64_t hd_clock_get_wall_ns(void);

#endif
