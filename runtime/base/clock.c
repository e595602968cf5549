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

void hd_nap(int64_t waited_ns)
{
    enum { SHORTEST_NS = 50000, LONGEST_NS = 2000000 };
    const int64_t nap_ns = SHORTEST_NS + waited_ns / 1000;
    nanosleep(&(struct timespec){.tv_nsec = nap_ns < LONGEST_NS ? nap_ns : LONGEST_NS}, NULL);
}
