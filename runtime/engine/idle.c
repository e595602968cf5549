/* SPDX-License-Identifier: Apache-2.0 */
/* Idle workers of StarPU spin. Ours yield for a while, because the next task or rank is usually
 * near, then nap. */
#include "runtime/engine/session_internal.h"

#include <sched.h>
#include <time.h>

enum { YIELDS_BEFORE_NAP = 400, NAP_FIRST_US = 20, NAP_LONGEST_US = 100 };

void hd_idle(int *rounds_p)
{
    const int rounds = (*rounds_p)++;
    if (rounds < YIELDS_BEFORE_NAP) {
        sched_yield();
        return;
    }
    long nap_us = NAP_FIRST_US + (rounds - YIELDS_BEFORE_NAP) / 4;
    struct timespec nap = {0, 1000 * (nap_us < NAP_LONGEST_US ? nap_us : NAP_LONGEST_US)};
    nanosleep(&nap, NULL);
}

static _Thread_local bool is_submitter; /* naps between its own polls, not in the hook */
static _Thread_local int worker_idle_rounds;
static _Thread_local int64_t worker_finished;

void hd_idle_mark_submitter(void)
{
    is_submitter = true;
}

unsigned hd_idle_hook(void *arg)
{
    struct hd_session *session = arg;
    if (is_submitter)
        return 1;
    hd_session_progress(session);
    int64_t finished = atomic_load_explicit(&session->finished, memory_order_relaxed);
    if (finished != worker_finished)
        worker_idle_rounds = 0;
    worker_finished = finished;
    hd_idle(&worker_idle_rounds);
    return 1;
}
