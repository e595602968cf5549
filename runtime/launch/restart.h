/* SPDX-License-Identifier: Apache-2.0 */
/* The pause before ranks that failed are started again. Thread safe. */
#ifndef HD_RUNTIME_LAUNCH_RESTART_H
#define HD_RUNTIME_LAUNCH_RESTART_H

#include <stdint.h>

/* Returns how long to wait before the next attempt: what fails at once would fail as often as ranks
 * can start. It grows from half a second to a minute with the restarts in a row after attempts
 * shorter than a minute, which *in_series counts. */
static inline int64_t hd_restart_choose_pause_ms(int *in_series, int64_t lasted_ms)
{
    enum { PAUSE_MS = 500, PAUSE_MAX_MS = 60000, HEALTHY_MS = 60000 };
    *in_series = lasted_ms < HEALTHY_MS ? *in_series + 1 : 1;
    int64_t pause_ms = PAUSE_MS;
    for (int i = 1; i < *in_series && pause_ms < PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
}

#endif
