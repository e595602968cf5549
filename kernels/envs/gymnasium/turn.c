/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Looks this often before it sleeps: a few microseconds, less than a sleep and a wake cost. */
enum { LOOKS = 100 };

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void give(_Atomic uint32_t *turn, uint32_t next)
{
    if (atomic_exchange_explicit(turn, next, memory_order_acq_rel) & HD_BRIDGE_AWAITED)
        syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Whose turn it is; the other side may already wait for the next one. */
static bool is_turn(uint32_t turn, uint32_t mine)
{
    return (turn & ~(uint32_t)HD_BRIDGE_AWAITED) == mine;
}

/* Waits until the turn is `mine`; returns false when the time is over. */
static bool await(_Atomic uint32_t *turn, uint32_t mine, const struct timespec *time)
{
    uint32_t now = atomic_load_explicit(turn, memory_order_acquire);
    for (int i = 0; i < LOOKS && !is_turn(now, mine); i++) {
        pause_briefly();
        now = atomic_load_explicit(turn, memory_order_acquire);
    }
    while (!is_turn(now, mine)) {
        const uint32_t awaited = now | HD_BRIDGE_AWAITED;
        if (now != awaited && !atomic_compare_exchange_strong(turn, &now, awaited))
            continue;
        if (syscall(SYS_futex, turn, FUTEX_WAIT, awaited, time, NULL, 0) != 0 && errno == ETIMEDOUT)
            return is_turn(atomic_load_explicit(turn, memory_order_acquire), mine);
        now = atomic_load_explicit(turn, memory_order_acquire);
    }
    return true;
}

void hd_turn_give(struct hd_bridge_control *control)
{
    give(&control->turn, HD_BRIDGE_THEIRS);
}

bool hd_turn_await(struct hd_bridge_control *control, double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    return await(&control->turn, HD_BRIDGE_OURS, &time);
}

int hd_gymnasium_next(struct hd_bridge_control *control)
{
    give(&control->turn, HD_BRIDGE_OURS);
    await(&control->turn, HD_BRIDGE_THEIRS, NULL);
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
