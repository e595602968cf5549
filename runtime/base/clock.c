/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hd_clock_get_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t hd_clock_get_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}
