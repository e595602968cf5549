/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A worker looks for its next turn for so long before it sleeps: waking it from a core that sleeps
 * as well takes tens of microseconds. Between looks it lets others have the core. */
enum { LOOK_NS = 100000 };

static int64_t read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns a word without the bit of the one who sleeps. */
static uint32_t get(uint32_t word)
{
    return word & ~HD_BRIDGE_AWAITED;
}

/* Sleeps while a word says `unwanted`; returns false when the time is over. NULL: no end. */
static bool sleep_while(_Atomic uint32_t *word, uint32_t unwanted, const struct timespec *time)
{
    uint32_t now = atomic_load(word);
    while (get(now) == unwanted) {
        const uint32_t awaited = now | HD_BRIDGE_AWAITED;
        if (now != awaited && !atomic_compare_exchange_strong(word, &now, awaited))
            continue;
        if (syscall(SYS_futex, word, FUTEX_WAIT, awaited, time, NULL, 0) != 0 && errno == ETIMEDOUT)
            return get(atomic_load(word)) != unwanted;
        now = atomic_load(word);
    }
    return true;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void hd_turn_give(struct hd_bridge_calls *calls, struct hd_bridge_control *control)
{
    control->answer = 0;
    atomic_store(&control->turn, HD_BRIDGE_THEIRS);
    if (atomic_fetch_add(&calls->waiting, 1) & HD_BRIDGE_AWAITED)
        wake(&calls->waiting);
}

bool hd_turn_is_given(const struct hd_bridge_control *control)
{
    return get(atomic_load(&control->turn)) == HD_BRIDGE_THEIRS;
}

bool hd_turn_await(struct hd_bridge_control *control, double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    if (seconds <= 0)
        return !hd_turn_is_given(control);
    return sleep_while(&control->turn, HD_BRIDGE_THEIRS, &time);
}

bool hd_turn_is_done(const struct hd_bridge_control *control)
{
    return get(atomic_load(&control->turn)) == HD_BRIDGE_OURS && control->answer == HD_BRIDGE_DONE;
}

static void give_back(struct hd_bridge_calls *calls, struct hd_bridge_control *control)
{
    atomic_fetch_add(&calls->done, 1);
    control->answer = HD_BRIDGE_DONE;
    if (atomic_exchange(&control->turn, HD_BRIDGE_OURS) & HD_BRIDGE_AWAITED)
        wake(&control->turn);
}

/* There is a call. */
static int take(struct hd_bridge_calls *calls, const struct hd_bridge_control *controls, int n,
                int last)
{
    int i = last;
    do
        i = i + 1 < n ? i + 1 : 0;
    while (!hd_turn_is_given(&controls[i]));
    atomic_fetch_sub(&calls->waiting, 1);
    return i;
}

int hd_gymnasium_next(struct hd_bridge_calls *calls, struct hd_bridge_control *controls, int n,
                      int last)
{
    give_back(calls, &controls[last]);
    for (int64_t until = read_clock() + LOOK_NS; read_clock() < until; sched_yield())
        if (get(atomic_load(&calls->waiting)) > 0)
            return take(calls, controls, n, last);
    sleep_while(&calls->waiting, 0, NULL);
    atomic_fetch_and(&calls->waiting, ~(uint32_t)HD_BRIDGE_AWAITED);
    return take(calls, controls, n, last);
}
