/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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

/* Sleeps until a word says `wanted`; returns false when the time is over. NULL: no end. */
static bool sleep_for(_Atomic uint32_t *word, uint32_t wanted, const struct timespec *time)
{
    uint32_t now = atomic_load(word);
    while (get(now) != wanted) {
        const uint32_t awaited = now | HD_BRIDGE_AWAITED;
        if (now != awaited && !atomic_compare_exchange_strong(word, &now, awaited))
            continue;
        if (syscall(SYS_futex, word, FUTEX_WAIT, awaited, time, NULL, 0) != 0 && errno == ETIMEDOUT)
            return get(atomic_load(word)) == wanted;
        now = atomic_load(word);
    }
    return true;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void hd_turn_give(_Atomic uint32_t *busy, struct hd_bridge_control *control)
{
    atomic_fetch_add(busy, 1);
    if (atomic_exchange(&control->turn, HD_BRIDGE_THEIRS) & HD_BRIDGE_AWAITED)
        wake(&control->turn);
}

bool hd_turn_is_given(const struct hd_bridge_control *control)
{
    return get(atomic_load(&control->turn)) == HD_BRIDGE_THEIRS;
}

bool hd_turn_await(_Atomic uint32_t *busy, double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    if (!sleep_for(busy, 0, &time))
        return false;
    atomic_store(busy, 0);
    return true;
}

int hd_gymnasium_next(_Atomic uint32_t *busy, struct hd_bridge_control *control)
{
    atomic_store(&control->turn, HD_BRIDGE_OURS);
    if (atomic_fetch_sub(busy, 1) == (HD_BRIDGE_AWAITED | 1))
        wake(busy);
    for (int64_t until = read_clock() + LOOK_NS; read_clock() < until; sched_yield())
        if (atomic_load(&control->turn) == HD_BRIDGE_THEIRS)
            return control->command;
    sleep_for(&control->turn, HD_BRIDGE_THEIRS, NULL);
    return control->command;
}

static void *watch(void *fd)
{
    char unused;
    while (read((int)(intptr_t)fd, &unused, 1) < 0 && errno == EINTR)
        ;
    kill(0, SIGKILL);
    return NULL;
}

int hd_gymnasium_watch(int fd)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, watch, (void *)(intptr_t)fd);
}
