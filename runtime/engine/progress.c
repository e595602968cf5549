/* SPDX-License-Identifier: Apache-2.0 */
/* Who drives sync points on: workers that have nothing else to do and, if ranks are on several
 * hosts, a thread, because between hosts data move only while somebody asks the transport for them,
 * and workers may be busy for long. Idle workers of StarPU spin; ours yield for a while, because
 * the next task or rank is usually near, then nap. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/session_internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* -- The thread -------------------------------------------------------------------------------- */

static void *drive(void *arg)
{
    struct hd_session *session = arg;
    struct hd_progress_thread *thread = &session->exchanges.thread;
    int64_t begin_ns = hd_clock_get_ns();
    while (!atomic_load(&thread->stop)) {
        uint64_t begun;
        if (atomic_load(&session->exchanges.n_open) == 0)
            poll(&(struct pollfd){.fd = thread->wake_fd, .events = POLLIN}, 1, -1);
        while (read(thread->wake_fd, &begun, sizeof begun) > 0)
            begin_ns = hd_clock_get_ns();
        hd_session_progress(session);
        hd_comm_wait_for_data(session->options.comm, thread->wake_fd, hd_clock_get_ns() - begin_ns);
    }
    return NULL;
}

int hd_progress_thread_start(struct hd_session *session)
{
    struct hd_progress_thread *thread = &session->exchanges.thread;
    struct hd_comm *comm = session->options.comm;
    if (session->options.sequential || !comm || hd_comm_count_hosts(comm) == 1)
        return HD_OK;
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int error =
        thread->wake_fd < 0 ? errno : pthread_create(&thread->thread, NULL, drive, session);
    if (error)
        return hd_fail(HD_ERR_SYSTEM, "no thread for the transport: %s", strerror(error));
    thread->running = true;
    return HD_OK;
}

void hd_progress_thread_stop(struct hd_session *session)
{
    struct hd_progress_thread *thread = &session->exchanges.thread;
    if (!thread->running)
        return;
    atomic_store(&thread->stop, true);
    hd_progress_thread_wake(session);
    pthread_join(thread->thread, NULL);
    close(thread->wake_fd);
}

/* -- Idle workers ------------------------------------------------------------------------------ */

void hd_idle(struct hd_idle *idle)
{
    enum { YIELDS_BEFORE_NAP = 400 };
    if (idle->rounds++ < YIELDS_BEFORE_NAP) {
        sched_yield();
        return;
    }
    const int64_t now_ns = hd_clock_get_ns();
    if (idle->since_ns == 0)
        idle->since_ns = now_ns;
    hd_nap(now_ns - idle->since_ns);
}

static _Thread_local bool is_submitter; /* naps between its own polls, not in the hook */
static _Thread_local struct hd_idle worker_idle;
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
    int64_t finished = atomic_load_explicit(&session->tasks.finished, memory_order_relaxed);
    if (finished != worker_finished)
        worker_idle = (struct hd_idle){0};
    worker_finished = finished;
    hd_idle(&worker_idle);
    return 1;
}
