/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks for reports, deadlines and the trace, which task bodies never read, and the naps of waits
 * that poll. Thread safe. */
#pragma once

#include <stdint.h>

/* Returns nanoseconds of a monotonic clock that all processes of a machine share. */
int64_t hd_clock_get_ns(void);

/* Returns nanoseconds since 1970-01-01 UTC. */
int64_t hd_clock_get_wall_ns(void);

/* Sleeps between two polls of a wait that has lasted waited_ns: for 50 us and a thousandth of that,
 * and for 2 ms at most. So waits end late by a thousandth, and long ones leave their core to
 * others. Where many ranks share cores and all wait for one of them, their polls could otherwise
 * keep it, and the kernel's threads, from any core. */
void hd_nap(int64_t waited_ns);
